"""What happens when a provider says that a request is too large, or can not be taken as it is."""
