"""Failures on the way of a request, a row each: what clients see, which prefixes stay, and what is left in
the proxy. Each row runs against a real mitmdump; where a request may fail, mitmproxy alone gets the same
request."""
