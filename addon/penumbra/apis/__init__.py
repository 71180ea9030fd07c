"""Formats of LLM APIs: where the parts of requests and responses stand, and how they are edited.

In: documents (`wire/document.py`) of requests, bytes of responses. Out: prompts, conversations and results
with their places, and responses without the injected tool. Each format has a file; `recognise` finds the API
of a request, `formats` lists them all. Called by `conversation/`, `expand/`, `redaction/`, `flow/`. No I/O.
"""
