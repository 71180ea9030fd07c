"""This package returns left-out texts to the model.

`Expansions` (in `expansions.py`) adds the injected tool and earlier hidden exchanges to a request, and finds
the texts for the model's calls. `loop.ToolLoop` makes one response of several turns. `conversation/` calls
the package for requests, and `flow/` for responses.
"""
