"""This package shortens a tool result by rules for the call and for the form of the text.

`pipeline.shorten` takes a result with its call (`result.ToolOutput`) and a policy, and returns the form to
send with the names of its stages (`result.Shortened`). `calls/` reads the call, `families/` has the rules for
a program's output, and `stages/` has the other transforms. `conversation/` calls the pipeline, and shares its
selection of lines and its token estimates.
"""
