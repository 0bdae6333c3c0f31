"""Precedence of semantic versions: https://semver.org/#spec-item-11."""

import re
from dataclasses import dataclass
from functools import total_ordering

_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_CHARACTERS = 256


@total_ordering
@dataclass(frozen=True, slots=True)
class VersionRank:
    """A version, ordered by precedence: a pre-release comes before its release."""

    release: tuple[int, int, int]
    #: Each identifier with its kind: numbers (0) come before texts (1). Empty for a release.
    pre: tuple[tuple[int, int, str], ...] = ()

    def __lt__(self, other: "VersionRank") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        return (self.release, not self.pre, self.pre)


def version_rank(text: str) -> VersionRank | None:
    """The rank of a version; None if the text is none. Build metadata does not count."""
    found = _SEMVER.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if found is None:
        return None
    major, minor, patch, pre = found.groups()
    parts = pre.split(".") if pre else []
    return VersionRank((int(major), int(minor), int(patch)), tuple(map(_identifier, parts)))


def _identifier(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
