"""Finders of secrets. In comes a text, with the places of its anchors; out come spans. `redactor.py` calls
them."""
