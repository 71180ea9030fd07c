"""This package classifies tool calls by name and arguments: the category, the command and its family."""
