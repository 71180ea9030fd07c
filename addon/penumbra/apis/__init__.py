"""This package has the formats of LLM APIs: it finds and edits the parts of requests and responses. The
functions take the documents (`wire/document.py`) of requests and the bytes of responses. The functions return
prompts, results with their places in the document, and responses without calls of the injected tool. Each
format has a file, and `formats` lists the formats. `recognise` finds the API of a request. The package does
no I/O.
"""
