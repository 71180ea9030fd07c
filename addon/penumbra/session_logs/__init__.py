"""This package reads conversations from the session logs of agents, and does not change them. Each agent's
format has a module that yields conversations. `projection/` and `penumbra discover` call the package.
"""
