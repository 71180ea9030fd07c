"""Answers to providers that refuse a request as too large, or for another reason that can be helped."""
