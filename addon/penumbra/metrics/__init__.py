"""Figures of the work: events, sums, and lines for logs."""
