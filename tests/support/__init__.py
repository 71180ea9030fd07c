"""Test providers, a mitmdump in a process, agents, streams and texts."""
