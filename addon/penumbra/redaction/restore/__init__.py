"""Secrets put back where the model writes placeholders into edits of files. Off by default.

In come a request's results and the calls of its response; out come the calls with their values, for the
client, and past calls with placeholders, for the provider. `conversation/` and `flow/response_edits.py`
call it.
"""
