"""This package is the page: a web server in mitmproxy's event loop that shows the figures to browsers that
have its link."""
