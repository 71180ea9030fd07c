"""Restoration of secrets where the model writes placeholders into edits of files. The option is off by
default.

The tool results of a request and the tool calls of its response come in. Calls go out to the client with
secrets, and past calls to the provider with placeholders. `conversation/` and `flow/response_edits.py` call
it.
"""
