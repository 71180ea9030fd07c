"""The stages of the pipeline. Each stage is a pure function from text to text."""
