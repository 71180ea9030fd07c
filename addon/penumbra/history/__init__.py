"""What may be done to a conversation as a whole."""
