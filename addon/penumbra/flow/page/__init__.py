"""The page: a server in mitmproxy's own loop, and what it shows."""
