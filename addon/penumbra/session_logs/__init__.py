"""This package finds the session logs of agents, and reads conversations from them. It never writes logs."""
