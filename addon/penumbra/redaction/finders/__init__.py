"""This package contains the finders, which find the spans of secrets in a text. `redactor.py` calls the
finders."""
