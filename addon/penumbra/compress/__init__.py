"""One tool result: what ran, and what may be left out of what it printed."""
