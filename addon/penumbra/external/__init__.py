"""Who shortens a result, where the pipeline does not: services and models that are asked for it.

`Strategy` (in `strategy`) is the interface; `dispatch` asks one within the limits of the process.
"""
