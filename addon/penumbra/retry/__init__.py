"""This package makes the request that replaces a refused request. The functions take a provider's refusal and
the sent request. Their result is a request that avoids the refusal, or None. `flow/` calls the package.
"""
