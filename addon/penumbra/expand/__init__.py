"""This package returns left-out texts to the model: references, the tool, its loop, hidden exchanges."""
