"""The type of `--port` for argparse."""

import argparse

_MAX = 65_535


def port(text: str) -> int:
    """A port to listen on; 0 is any free one. Raises ArgumentTypeError, which argparse reports."""
    if not (text.isascii() and text.isdecimal() and int(text) <= _MAX):
        rule = f"must be a whole number from 0 to {_MAX}, such as 9443, not {text!r}"
        raise argparse.ArgumentTypeError(rule)
    return int(text)
