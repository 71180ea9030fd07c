"""The stages of the pipeline. Each is a pure function from text to text."""
