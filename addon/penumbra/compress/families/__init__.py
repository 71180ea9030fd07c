"""This package has the command families. A family shortens the output of a program by the rules for it."""
