"""The parser of `kubectl kubeshare`: wrong usage in one sentence, and help without long lists.

As kubectl's own: the sentence, and how to get help. Options about the connection are kubectl's;
help names them last, in one paragraph.
"""

import argparse
from typing import Any, NoReturn

from kubeshare_cmd.kubectl_help import COMMANDS_TITLE, connection_names, make_formatter
from kubeshare_cmd.kubectl_hints import meant, unknown_command, unknown_word

_UNRECOGNIZED = "unrecognized arguments: "


class UsageParser(argparse.ArgumentParser):
    """Says what is wrong first. `connection` is the group of options that help shows in short."""

    def __init__(self, **fields: Any) -> None:
        # An option that is not given must not hide the same one given before the command.
        super().__init__(
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=make_formatter,
            **fields,
        )
        self.connection = self.add_argument_group("connection")
        #: The names before a word that is not understood.
        self.words: list[str] = []

    def error(self, message: str) -> NoReturn:
        """End with 2, and with the sentence before the way to the help."""
        if message.startswith(_UNRECOGNIZED):
            options = [name for action in self._actions for name in action.option_strings]
            word = message.removeprefix(_UNRECOGNIZED).partition(" ")[0].partition("=")[0]
            message = unknown_word(self.prog.rpartition(" ")[2], word, self.words, options)
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "needs a value")
        self.exit(2, f"Error: {message}\nSee `{self.prog} --help` for usage.\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; words that a command does not know are wrong usage of that command."""
        found, extras = super().parse_known_args(args, namespace)
        if extras and self._subparsers is None:
            names = getattr(found, "names", None) or []
            self.words = [names] if isinstance(names, str) else names
            self.error(_UNRECOGNIZED + " ".join(extras))
        return found, extras

    def format_help(self) -> str:
        """The command's own options, then one paragraph about the connection."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in sorted(self._action_groups, key=lambda one: one.title != COMMANDS_TITLE):
            if group is not self.connection:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        if self.connection._group_actions:
            formatter.add_text(connection_names(self.connection._group_actions))
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, unknown_command(value, known))
        hint = meant(value, known) or f": {', '.join(known)}"
        raise argparse.ArgumentError(action, f'"{value}" is none of its values{hint}')
