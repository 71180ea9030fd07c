"""What Penumbra would have made of requests that were sent without it, worked out by its own engine."""
