"""This package writes requests and responses as text for people, with the outcome of each result."""
