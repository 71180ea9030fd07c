"""This package calls external compressors: services and models that shorten results in place of the pipeline.

Its functions take redacted results and the user's question. They return shorter texts, or the reasons why
there are none. `conversation/external_forms.py` calls `compressors`, which chooses the results. `dispatch`
calls a strategy of `strategies` within the limits of the process.
"""
