"""This package makes the request that replaces a refused request. The functions take a provider's refusal and
the sent request, and return a request without the cause of the refusal, or None. `flow/` calls the package.
"""
