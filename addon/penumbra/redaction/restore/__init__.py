"""This package, off by default, replaces placeholders by their secrets where the model edits a file.

In a response, tool calls that edit a file get the secrets before the client receives them. In a later
request, the same calls get their placeholders again before the provider receives them.
`conversation/restored_values.py` calls the package.
"""
