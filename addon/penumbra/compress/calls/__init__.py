"""Classification of tool calls, by the tool's name and arguments: a category, a command and its family."""
