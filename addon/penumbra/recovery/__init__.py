"""What happens when a provider says that a request is too large."""
