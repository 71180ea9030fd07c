"""Secrets out, placeholders in."""
