"""This package calls external compressors: services and models that shorten results after the pipeline or in
place of it.

The functions take redacted results and the user's question. The functions return shorter texts, or the
reasons why there are none. `conversation/external_forms.py` calls `compressors`, which chooses the results.
`dispatch` calls a strategy of `strategies` within the limits of the process.
"""
