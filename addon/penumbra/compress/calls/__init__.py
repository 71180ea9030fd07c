"""The program that a tool call ran: from its name and arguments to a command and its family."""
