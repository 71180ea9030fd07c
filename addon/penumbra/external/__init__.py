"""Compressors beside the pipeline: services and models that are asked to shorten a result.

Input are redacted results with the user's question, output are shorter texts or the reasons why there are
none. `conversation/external_forms.py` calls `compressors`, which chooses the results; `dispatch` calls a
strategy of `strategies` within the limits of the process.
"""
