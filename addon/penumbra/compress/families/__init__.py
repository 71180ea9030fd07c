"""This package has the command families. `shorten.apply` takes the output of a program and its call, and
returns a shorter output by the rules in `rules/commands`, or None. The pipeline calls it.
"""
