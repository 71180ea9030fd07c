"""What is remembered from request to request, on disk and sealed."""
