"""This package writes requests and responses as text for people.

The functions take the body of a request or response and facts about it, such as the outcome of each tool
result. The functions return lines and do no I/O. `flow/explainer.py` shows the lines in mitmproxy.
"""
