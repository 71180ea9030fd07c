"""This package computes what Penumbra would have saved in requests that were sent without it."""
