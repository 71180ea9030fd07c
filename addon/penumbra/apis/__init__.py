"""How each LLM API writes requests and responses: bytes in, places to edit out. No I/O."""
