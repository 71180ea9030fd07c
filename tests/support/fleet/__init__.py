"""Several proxies with one store: what they need, and conversations that land on any of them."""
