"""Settings: the table of options, and the places that they come from.

In come mitmproxy's options, the environment, the YAML file and words of a request; out comes one frozen
`Settings`, or an error in one line. `flow/` and `cli/` load it; the packages below get it and read nothing
else.
"""
