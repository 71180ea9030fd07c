"""Several proxies with one store, a balancer, and conversations over them."""
