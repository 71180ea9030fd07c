"""The steps of the pipeline: each a pure function from text to text."""
