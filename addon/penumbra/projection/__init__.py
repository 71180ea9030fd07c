"""This package makes projections: it computes what Penumbra would have saved in requests that were sent
without it."""
