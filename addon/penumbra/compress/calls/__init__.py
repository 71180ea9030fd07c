"""This package classifies tool calls. `classify.classify` takes the name and the arguments of a call, and
returns its category, command and family. `envelope` and `json_envelope` find the text that an agent writes
around an output. The pipeline, `conversation/` and `redaction/` call the package.
"""
