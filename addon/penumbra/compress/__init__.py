"""This package shortens one tool result by the call that produced it and by the form of its text."""
