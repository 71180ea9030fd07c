"""Settings: the table of options, and the places that they come from.

Input are mitmproxy's options, the environment, the YAML file and members of a request; output is one frozen
`Settings`, or an error in one line. `flow/` and `cli/` load it; the packages below get it and read nothing
else.
"""
