"""Responses as streams of bytes, and what feeds them to a reader."""
