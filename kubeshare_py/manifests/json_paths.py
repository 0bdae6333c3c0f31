"""JSONPath in Kubernetes' dialect, and templates of such paths as `-o jsonpath=…` takes them."""

import json
import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

# JSONPath in Kubernetes' dialect: `.spec.size`, `.items[*].key`, `.conditions[?(@.type=="x")]`.
#
# Fields, quoted fields, indexes, slices, unions, wildcards, descent and filters with one
# comparison: https://kubernetes.io/docs/reference/kubectl/jsonpath/. A missing field matches
# nothing.
#
# No library reads this dialect (client-go's util/jsonpath). python-jsonpath 2.2 and jsonpath-ng
# 1.16 refuse escaped names (backslash-dot, common in printer columns), and their `!=` holds if the
# field is missing. python-jsonpath also refuses unquoted names such as `a/b`, `a:b` and `1a`, and a
# final `..`. The paths would have to be parsed here and rewritten for a library, which would save
# only the evaluation below. A library takes 5 to 15 times as long for a value, and 50 to 65 ms of
# CPU time to import.


PathStep = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
    \.\.(?P<descent>) |
    \.?(?P<wild>\*) |
    \.?(?P<field>(?:\\.|[^.\[\]*\\\s])+) |
    \[(?P<subscript>\?\([^\]]*?(?:"[^"]*"|'[^']*'|[^\]])*\)|(?:'[^']*'|"[^"]*"|[^\]])*)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(
    r"^\?\(\s*@(?P<path>.*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?\)$"
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class BadPath(ValueError):
    """The text is no such path."""


def found_at(path: str, value: Any) -> list[Any]:
    """Everything that a path matches, in order; raises BadPath."""
    values = [value]
    for step in _steps(path):
        values = [found for one in values for found in step(one)]
    return values


@cache
def _steps(path: str) -> tuple[PathStep, ...]:
    steps: list[PathStep] = []
    place = 0
    while place < len(path) and path != ".":
        token = _TOKEN.match(path, place)
        if token is None or token.end() == place:
            raise BadPath(f"unrecognized path {path!r} at {path[place:]!r}")
        steps.append(_step(token))
        place = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> PathStep:
    if token["descent"] is not None:
        return _descent
    if token["wild"] is not None:
        return _children
    if token["field"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", token["field"]))
    text = token["subscript"].strip()
    if text.startswith("?"):
        return _filter(text)
    parts = [_subscript(part.strip()) for part in text.split(",")]
    return lambda value: (found for part in parts for found in part(value))


def _subscript(text: str) -> PathStep:
    if text == "*":
        return _children
    if text[:1] in "'\"" and text[:1] == text[-1:] and len(text) > 1:
        return _field(text[1:-1])
    bounds = text.split(":")
    if not all(re.fullmatch(r"-?\d*", bound) for bound in bounds) or text in ("", "-"):
        raise BadPath(f"unrecognized subscript {text!r}")
    if len(bounds) == 1:
        return _index(int(text))
    cut = slice(*(int(bound) if bound else None for bound in bounds))
    return lambda value: iter(value[cut] if isinstance(value, list) else ())


def _field(name: str) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(number: int) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (value[name] for name in sorted(value))
    elif isinstance(value, list):
        yield from value


def _descent(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _descent(child)


def _filter(text: str) -> PathStep:
    found = _FILTER.match(text)
    if found is None:
        raise BadPath(f"unrecognized filter {text!r}")
    path = found["path"]
    _steps(path)
    if found["op"] is None:
        return lambda value: (one for one in _children(value) if found_at(path, one))
    holds, wanted = _OPERATORS[found["op"]], _literal(found["value"])

    def step(value: Any) -> Iterator[Any]:
        for one in _children(value):
            held = found_at(path, one)
            if len(held) == 1 and _comparable(held[0], wanted) and holds(held[0], wanted):
                yield one

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"" and text[0] == text[-1]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError as error:
        raise BadPath(f"unrecognized literal {text!r}") from error


def _comparable(one: Any, other: Any) -> bool:
    if isinstance(other, bool) or isinstance(one, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return isinstance(one, str) == isinstance(other, str)


# Templates of `-o jsonpath=…` as in kubectl: text, `{paths}`, `{range …}{end}`.
#
# https://kubernetes.io/docs/reference/kubectl/jsonpath/. A missing field is printed as nothing.


#: A template is a function of the document.
Template = Callable[[Any], str]
_PART = re.compile(
    r"""[^{]+ | \{ (?: [^{}"'] | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )* \}""", re.X
)
_QUOTED = re.compile(r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' """, re.VERBOSE)
_RANGE, _END = "range", "end"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def template(text: str) -> Template:
    """Parse a template; raises BadPath. Without braces it is one path, whose dot may be missing."""
    if "{" not in text:
        text = "{" + (text if text[:1] in ".[$@" else f".{text}") + "}"
    return _sequence(_parts(text), inside=False)


def _parts(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None:
            raise BadPath(f"unclosed action in {text!r} at {text[place:]!r}")
        yield found.group()
        place = found.end()


def _sequence(parts: Iterator[str], *, inside: bool) -> Template:
    """Everything up to `{end}`; outside of any range, up to the end of the template.

    Raises BadPath.
    """
    steps: list[Template] = []
    for part in parts:
        inner = part[1:-1].strip() if part.startswith("{") else None
        if inner is None:
            steps.append(_text(part))
        elif inner == _END:
            if not inside:
                raise BadPath("{end} without {range}")
            return _joined(steps)
        elif inner.split(maxsplit=1)[:1] == [_RANGE]:
            steps.append(_range(inner[len(_RANGE) :].strip(), _sequence(parts, inside=True)))
        else:
            steps += [_action(one) for one in _split(inner)]
    if inside:
        raise BadPath("{range} without {end}")
    return _joined(steps)


def _joined(steps: list[Template]) -> Template:
    return lambda document: "".join(step(document) for step in steps)


def _split(inner: str) -> Iterator[str]:
    """The paths and quoted texts of one action.

    Blanks inside brackets and quotes do not separate.
    """
    one, depth = "", 0
    for piece in re.findall(rf"{_QUOTED.pattern}|.", inner, re.VERBOSE | re.DOTALL):
        depth += {"[": 1, "]": -1}.get(piece, 0)
        if piece.isspace() and not depth:
            if one:
                yield one
            one = ""
        else:
            one += piece
    if one:
        yield one


def _action(text: str) -> Template:
    if _QUOTED.fullmatch(text):
        return _text(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1]))
    path = _path(text)
    return lambda document: " ".join(_printed(value) for value in found_at(path, document))


def _range(text: str, body: Template) -> Template:
    path = _path(text)
    return lambda document: "".join(body(value) for value in found_at(path, document))


def _path(text: str) -> str:
    """The path without a leading `$` or `@`; raises BadPath."""
    path = text.removeprefix("$").removeprefix("@")
    if path[:1] not in (".", "[") and text not in ("$", "@"):
        raise BadPath(f"unrecognized path {text!r}")
    found_at(path, None)
    return path


def _text(text: str) -> Template:
    return lambda _: text


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
