"""This package has command families, which shorten the output of a program by the rules for that program."""
