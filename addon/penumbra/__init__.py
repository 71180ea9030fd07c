"""Penumbra: smaller and safer requests for LLM agents, below TLS, as a mitmproxy addon."""

__version__ = "0.1.0"
