"""Command families: what a program printed, shortened by what its rule knows about it."""
