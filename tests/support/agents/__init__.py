"""Small agents on the official SDKs, the tools that they run, and the model that they talk to."""
