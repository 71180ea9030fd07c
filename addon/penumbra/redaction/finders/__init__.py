"""This package contains the finders. A finder gets a text with the offsets of its anchors and yields spans.
`redactor.py` calls the finders."""
