"""What was done, shown: events, totals, lines for logs."""
