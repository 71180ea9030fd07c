"""This package handles JSON, streams, content codings, paths and signatures, without mitmproxy. `apis/`,
`conversation/` and `flow/` call the package, mostly with bytes.
"""
