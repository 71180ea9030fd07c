"""Session logs of agents: their places, and the conversations in them. Logs are read, never written."""
