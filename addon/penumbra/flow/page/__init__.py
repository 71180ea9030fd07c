"""This package serves the page in mitmproxy's event loop, with figures from `metrics/` and the history.
`addon.py` starts and stops the server.
"""
