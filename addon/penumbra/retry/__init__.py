"""This package makes the request that replaces a refused request. The functions take a provider's refusal and
the sent request. A request that avoids the refusal is returned, or None. `flow/` calls the package.
"""
