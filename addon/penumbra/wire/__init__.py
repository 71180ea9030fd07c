"""Bytes only: JSON documents, framings of streams, content codings. No I/O, no mitmproxy."""
