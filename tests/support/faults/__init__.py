"""Failures on the way of a request, one row for each. A row counts what clients see, which prefixes stay, and
what is left in the proxy. Each row runs against a real mitmdump. If a request may fail, mitmproxy alone gets
an equal request."""
