"""`kubectl_complete-kubeshare`: kubectl runs it for shell completion of the plugin's words."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from kubeshare_cmd.kubectl_parser import COMMANDS, make_parser
from kubeshare_py.programs.kubectl_completion import CommandOption, candidates, read_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Print candidates and the directive; the last argument is the word to complete."""
    words = sys.argv[1:] if arguments is None else arguments
    summaries = {name: text for name, (text, _) in COMMANDS.items()}
    found, directive = candidates(read_line(words, summaries, _options))
    print(*found, f":{directive}", sep="\n")
    return 0


def _options(command: str) -> Mapping[str, CommandOption]:
    """The options of a command; of all commands if none is given yet."""
    parser = make_parser()
    subparsers = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    chosen: argparse.ArgumentParser = subparsers.choices.get(command, parser)
    return {
        name: CommandOption(action.dest, action.nargs != 0, action.help or "")
        for action in chosen._actions
        for name in action.option_strings
    }
