"""What goes wrong on the way of a request, row by row: what clients see of it, what stays the same, what is left.

Each row runs against a real mitmdump; where a request may fail, the same is sent through mitmproxy alone.
"""
