"""How each API writes a conversation: bytes in, turns and places to edit out. No I/O, no mitmproxy."""
