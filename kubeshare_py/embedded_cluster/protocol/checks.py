"""The checks of an object's fields, each of which adds what it finds wrong to one list."""

from collections.abc import Callable, Sequence
from typing import Any

from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    not_allowed,
    required,
    unsupported,
    wrong,
)

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"


class Checked:
    """A part of an object, at a path such as `spec.template`; all parts share `causes`.

    A check takes the name of a field of the part, "" for the part itself.
    """

    __slots__ = ("causes", "path", "value")

    def __init__(
        self, value: Json, path: str = "", causes: list[StatusCause] | None = None
    ) -> None:
        self.value = value
        self.path = path
        self.causes: list[StatusCause] = [] if causes is None else causes

    def get(self, field: str, empty: Any = "") -> Any:
        """The field's value."""
        return self.value.get(field, empty)

    def where(self, field: str) -> str:
        """The path of a field."""
        return f"{self.path}.{field}" if self.path and field else self.path or field

    def at(self, path: str) -> "Checked":
        """A part below; one that is absent counts as empty."""
        value: Any = self.value
        for step in path.split("."):
            value = value.get(step) or {}
        return Checked(value, self.where(path), self.causes)

    def below(self, place: str, value: Json) -> "Checked":
        """A part that is shown at this place."""
        return Checked(value, self.where(place), self.causes)

    def each(self, field: str) -> list["Checked"]:
        """The entries of a list."""
        where, entries = self.where(field), self.value.get(field) or []
        return [Checked(one, f"{where}[{i}]", self.causes) for i, one in enumerate(entries)]

    def wrong(self, field: str, value: object, text: str) -> None:
        """This value is not allowed."""
        self.causes.append(wrong(self.where(field), value, text))

    def forbid(self, field: str, text: str) -> None:
        """The field may not be set or changed."""
        self.causes.append(not_allowed(self.where(field), text))

    def lacks(self, field: str, text: str = "") -> None:
        """The field must be there."""
        self.causes.append(required(self.where(field), text))

    def require(self, *fields: str, text: str = "") -> bool:
        """Whether all fields are there and not empty."""
        missing = [field for field in fields if not self.value.get(field)]
        for field in missing:
            self.lacks(field, text)
        return not missing

    def one_of(self, field: str, known: Sequence[Any], empty: object = "") -> None:
        """The value is in a closed list."""
        value = self.get(field, empty)
        if value not in known:
            self.unsupported(field, value, known)

    def unsupported(self, field: str, value: object, known: Sequence[Any]) -> None:
        """This value is not in a closed list."""
        self.causes.append(unsupported(self.where(field), value, known))

    def valid(self, field: str, problem_of: Callable[[str], str], *, lower: bool = False) -> bool:
        """Whether a text is as it should be; `problem_of` says why it is not, or ""."""
        text = self.get(field).lower() if lower else self.get(field)
        problem = problem_of(text)
        if problem:
            self.wrong(field, text, problem)
        return not problem

    def named(self, field: str, problem_of: Callable[[str], str], *, lower: bool = False) -> bool:
        """Whether a text is there, and as it should be."""
        return self.require(field) and self.valid(field, problem_of, lower=lower)

    def at_least(self, least: int, *fields: str, text: str = NOT_NEGATIVE) -> None:
        """Numbers that are there are not below `least`."""
        for field in fields:
            number = self.get(field, least)
            if number < least:
                self.wrong(field, number, text)

    def repeats(self, field: str, seen: set[Any], at: str | None = None) -> bool:
        """Whether the value is among those seen, to which it is added; `at` is the field shown."""
        value = self.get(field)
        if value in seen:
            self.causes.append(duplicate(self.where(field if at is None else at), value))
            return True
        seen.add(value)
        return False

    def unchanged(self, old: Json, *fields: str, text: str = IMMUTABLE) -> None:
        """The fields are as in the same part of the object before."""
        for field in fields:
            if self.value.get(field) != old.get(field):
                self.wrong(field, self.value.get(field), text)
