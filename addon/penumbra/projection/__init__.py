"""Projections: what Penumbra's engine would have made of requests that were sent without Penumbra."""
