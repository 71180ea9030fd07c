"""A whole request: read, decided result by result, and rewritten."""
