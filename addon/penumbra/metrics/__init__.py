"""This package counts Penumbra's work, and makes events, sums and log lines from the counts."""
