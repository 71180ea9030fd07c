"""This package stores state between requests, encrypted on disk or in a shared store."""
