"""Projections: the outcome of requests that were sent without Penumbra, worked out by its own engine."""
