"""State that is kept from request to request: on disk and sealed, or in a shared store."""
