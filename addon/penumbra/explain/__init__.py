"""This package writes requests and responses as text for people.

The functions take the body of a message and facts about it, such as the outcome of each result, and return
lines. The functions do no I/O. `flow/explainer.py` shows the lines in mitmproxy.
"""
