"""How help of `kubectl kubeshare` looks."""

import argparse

#: The title of the commands, which help names first.
COMMANDS_TITLE = "commands"
_WIDTH, _HELP_AT = 96, 32


def make_formatter(prog: str) -> argparse.HelpFormatter:
    """One line for each option where that is possible."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_HELP_AT, width=_WIDTH)


def connection_names(actions: list[argparse.Action]) -> str:
    """The options about the connection in one paragraph."""
    names = ["/".join(action.option_strings) for action in actions]
    lines, line = [], " "
    for name in names:
        if len(line) + len(name) + 2 > _WIDTH:
            lines.append(line)
            line = " "
        line += f" {name},"
    return "\n".join(["connection (kubectl's, see docs/kubectl.md):", *lines, line.rstrip(",")])
