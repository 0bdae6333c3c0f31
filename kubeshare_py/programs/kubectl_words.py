"""Parses a command line of `kubectl kubeshare` whose last word is to be completed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from kubeshare_py.edges.cli.access import ApiAccess

#: The options about the way to the scheduler that are one text.
_TEXTS = {one.name for one in fields(ApiAccess) if one.type in ("str | None", str | None)}


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option by the field that it sets; `takes_value` is False for flags."""

    field: str
    takes_value: bool
    help: str


@dataclass(slots=True, kw_only=True)
class CommandLine:
    """The words before the word to complete, and the possible ones.

    Commands and options with their help.

    `option` is the field of the option whose value the word is, "" for none; `given` are the words
    that are neither options nor the command.
    """

    word: str
    commands: Mapping[str, str]
    command: str = ""
    options: Mapping[str, CommandOption] = field(default_factory=dict)
    option: str = ""
    given: list[str] = field(default_factory=list)
    access: ApiAccess = field(default_factory=ApiAccess)


def read_line(
    words: Sequence[str],
    commands: Mapping[str, str],
    options_of: Callable[[str], Mapping[str, CommandOption]],
) -> CommandLine:
    """Parse a line whose last word is to be completed."""
    *before, word = words or [""]
    line = CommandLine(word=word, commands=commands)
    line.command = next((one for one in before if one in commands), "")
    line.options = options_of(line.command)
    values: dict[str, Any] = {}
    for one in before:
        name, equals, value = one.partition("=")
        if line.option:
            values[line.option], line.option = one, ""
        elif name in line.options and line.options[name].takes_value:
            line.option = "" if equals else line.options[name].field
            values |= {line.options[name].field: value} if equals else {}
        elif not one.startswith("-") and one != line.command:
            line.given.append(one)
    line.access = ApiAccess(**{name: text for name, text in values.items() if name in _TEXTS})
    return line
