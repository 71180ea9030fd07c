"""The page: a server in mitmproxy's own loop, which reads the figures and serves browsers with its link."""
