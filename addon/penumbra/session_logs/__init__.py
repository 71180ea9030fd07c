"""This package finds the session logs of agents and reads conversations from them, without changing them."""
