"""Formats of LLM APIs: the places of the parts of requests and responses, and ways to edit them.

In: documents (`wire/document.py`) of requests, bytes of responses. Out: prompts, conversations and results
with their places, and responses without the injected tool. Each format has a file; `recognise` finds the API
of a request, `formats` lists them all. Called by `conversation/`, `expand/`, `redaction/`, `flow/`. No I/O.
"""
