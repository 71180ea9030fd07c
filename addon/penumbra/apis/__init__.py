"""This package knows the formats of LLM APIs: it finds the parts of requests and responses, and edits them.
The functions take the documents (`wire/document.py`) of requests and the bytes of responses. The functions
return prompts and results with their places, and responses without calls of the injected tool. Each format
has a file, and `formats` lists the formats. `recognise` finds the API of a request. The package does no I/O.
"""
