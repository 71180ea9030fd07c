"""What was left out and how the model gets it back: refs, stores, the phantom tool, replay."""
