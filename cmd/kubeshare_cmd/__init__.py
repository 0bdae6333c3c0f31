"""Entry points: parse arguments, choose, start a program."""
