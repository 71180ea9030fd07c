"""This package reads and edits bytes: JSON, streams and content codings. It does no I/O and does not use
mitmproxy."""
