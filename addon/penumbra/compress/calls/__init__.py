"""Calls of tools, read from their names and arguments: a category, a command and its family."""
