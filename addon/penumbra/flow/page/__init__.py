"""This package serves the page, which shows the figures to browsers, in mitmproxy's event loop."""
