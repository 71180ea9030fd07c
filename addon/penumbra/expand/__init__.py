"""The way back to left-out text: references, the injected tool, its loop, and hidden exchanges."""
