"""The formats of LLM APIs. This package finds the parts of requests and responses, and edits them.

It takes the documents (`wire/document.py`) of requests and the bytes of responses. It returns prompts and
results with their places, and responses without the injected tool. Each format has a file, `formats` lists
them, and `recognise` finds the API of a request. There is no I/O.
"""
