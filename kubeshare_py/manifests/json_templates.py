"""Templates of `-o jsonpath=…` as in kubectl: text, `{paths}`, `{range …}{end}`.

https://kubernetes.io/docs/reference/kubectl/jsonpath/. A missing field is printed as nothing.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from kubeshare_py.manifests.json_paths import BadPath, found_at

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
            steps.append(_literal(part))
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
        return _literal(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1]))
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


def _literal(text: str) -> Template:
    return lambda _: text


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
