"""This package counts what Penumbra does, and makes events, sums and log lines of it."""
