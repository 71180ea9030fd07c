"""This package reads and edits JSON, streams and content codings, without I/O and mitmproxy."""
