"""All that knows mitmproxy: what is done at its hooks, flow by flow."""
