"""What was left out, and how the model gets it back: references, the injected tool, its loop, what it hid."""
