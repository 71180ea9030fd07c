"""Compressors beside the pipeline: services and models that are asked to shorten a result.

In come redacted results with the user's question; out come shorter texts, or the reason why there is none.
`conversation/external_forms.py` calls `compressors`, which chooses the results; `dispatch` asks a strategy of
`strategies` within the limits of the process.
"""
