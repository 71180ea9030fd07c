"""This package retries requests that a provider refuses as too large or for another reason that a changed
request avoids."""
