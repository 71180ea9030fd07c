"""Settings: what there is to set, how values are read, and where they may come from."""
