"""Figures and records of the work: events, sums, lines for logs."""
