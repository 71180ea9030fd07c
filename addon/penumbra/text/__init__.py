"""What may be done to one result: pure functions from text to text."""
