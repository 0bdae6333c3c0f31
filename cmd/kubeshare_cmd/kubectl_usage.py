"""The parser of `kubectl kubeshare`: wrong usage in one sentence, and help without long lists.

As kubectl's own: the sentence, and how to get help. Options about the connection are kubectl's;
help names them last, in one paragraph.
"""

import argparse
from difflib import get_close_matches
from typing import Any, NoReturn

#: The title of the commands, which help names first.
COMMANDS_TITLE = "commands"
_UNRECOGNIZED = "unrecognized arguments: "
_WIDTH, _HELP_AT = 96, 32
_ALIKE = 0.7
#: Kinds before a name, as in `kubectl get job x`; `why` takes them as job/x.
_KINDS = {
    "pod", "pods", "po", "job", "jobs", "deployment", "deployments", "deploy", "replicaset", "rs",
    "statefulset", "sts", "daemonset", "ds", "replicationcontroller", "rc", "sharepod",
}  # fmt: skip
#: What people type who know other commands.
_ELSEWHERE = {
    "version": "it is an option: kubectl kubeshare --version",
    "help": "it is an option: kubectl kubeshare --help",
    "completion": "kubectl completes the plugin's words with `kubectl_complete-kubeshare` on $PATH",
    "get": "cards are shown by `gpus`, pods by `pods`",
    "describe": "`why` says all about a pod",
    "nodes": "cards are shown node by node: gpus --summary",
}


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
            message = self._unknown(message.removeprefix(_UNRECOGNIZED).split(" "))
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
            formatter.add_text(_connection(self.connection._group_actions))
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        hint = _meant(str(value), known) or f": {', '.join(known)}"
        if isinstance(action, argparse._SubParsersAction):
            said = f"; {_ELSEWHERE[value]}" if value in _ELSEWHERE else hint
            raise argparse.ArgumentError(None, f'unknown command "{value}"{said}')
        raise argparse.ArgumentError(action, f'"{value}" is none of its values{hint}')

    def _unknown(self, extras: list[str]) -> str:
        """What the first word means that no option and no name explains."""
        word = extras[0].partition("=")[0]
        if word.startswith("-"):
            options = [name for action in self._actions for name in action.option_strings]
            return f"unknown option {word}{_meant(word, options)}"
        command = self.prog.rpartition(" ")[2]
        if command == "check":
            return f'unexpected word "{word}"; did you mean -f {word}?'
        if command == "why" and self.words and self.words[0] in _KINDS:
            return f'"{self.words[0]}" is a kind; did you mean why {self.words[0]}/{word}?'
        if command == "why":
            return f'unexpected word "{word}"; why is about one pod, or one KIND/NAME'
        return f'unexpected word "{word}"'


def make_formatter(prog: str) -> argparse.HelpFormatter:
    """One line for each option where that is possible."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_HELP_AT, width=_WIDTH)


def _connection(actions: list[argparse.Action]) -> str:
    names = ["/".join(action.option_strings) for action in actions]
    lines, line = [], " "
    for name in names:
        if len(line) + len(name) + 2 > _WIDTH:
            lines.append(line)
            line = " "
        line += f" {name},"
    return "\n".join(["connection (kubectl's, see docs/kubectl.md):", *lines, line.rstrip(",")])


def _meant(word: str, known: list[str]) -> str:
    names = {one.lstrip("-"): one for one in known}
    alike = get_close_matches(word.lstrip("-"), names, n=1, cutoff=_ALIKE)
    return f"; did you mean {names[alike[0]]}?" if alike else ""
