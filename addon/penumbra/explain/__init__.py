"""Requests and responses as text for people: what was said, and what was made of each result."""
