"""This package has the table of options, and reads the settings from all places that they may come from.

It reads mitmproxy's options, the environment, the YAML file and members of a request, and makes one frozen
`Settings`, or an error of one line. `flow/` and `cli/` load the settings; all other packages only receive
them.
"""
