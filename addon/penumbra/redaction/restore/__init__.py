"""Restoration of secrets where the model writes placeholders into edits of files. Off by default.

A request's results and the calls of its response come in. The calls go out with their values, for the client,
and past calls with placeholders, for the provider. `conversation/` and `flow/response_edits.py` call it.
"""
