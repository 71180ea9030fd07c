"""This package reads and edits JSON, streams and content codings. It does no I/O and uses no mitmproxy."""
