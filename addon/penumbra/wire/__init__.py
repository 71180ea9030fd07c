"""This package reads and edits bytes: JSON, streams, content codings. It uses no I/O and no mitmproxy."""
