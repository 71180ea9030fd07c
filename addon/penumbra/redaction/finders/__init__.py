"""Finders of secrets. Input is a text with the places of its anchors, output are spans. `redactor.py` calls
them."""
