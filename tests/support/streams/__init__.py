"""Responses as streams of bytes, and functions that feed them to a reader."""
