"""This package calls external compressors: services and models that shorten results after or instead of the
pipeline.

The functions take redacted results and the user's question. Their results are shorter texts, or the reasons
why there are none. `conversation/external_forms.py` chooses the results and calls `dispatch`, which calls a
strategy of `strategies` within the limits of the process.
"""
