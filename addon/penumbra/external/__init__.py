"""This package calls external compressors: services and models that shorten results in place of the pipeline.

Redacted results and the user's question come in; shorter texts, or the reasons why there are none, go out.
`conversation/external_forms.py` calls `compressors`, which chooses the results; `dispatch` calls a strategy
of `strategies` within the limits of the process.
"""
