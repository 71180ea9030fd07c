"""This package handles JSON, streams, content codings, paths and signatures, without mitmproxy."""
