"""This package has the table of options, and reads the settings from all their sources. The sources are
mitmproxy's options, the environment, the YAML file and members of a request. The result is one frozen
`Settings`, or an error of one line. `flow/` and `cli/` load the settings. `conversation/read.py` applies the
members of a request. All other packages only receive the settings."""
