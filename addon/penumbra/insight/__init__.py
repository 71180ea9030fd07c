"""What was done, shown: events, figures, flow marks."""
