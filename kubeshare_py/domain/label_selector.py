"""Label selectors: their meaning, and their text form in queries.

Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors and
#api. Requirements on nodes' labels have two more operators, which the NodeAffinity plugin evaluates
by column.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = rf"(?:{_PART}(?:\.{_PART})*/)?"
_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY, _VALUE = _PREFIX + _NAME, f"(?:{_NAME})?"
# No two optional parts of one kind stand side by side: a long text would take for ever.
_VALUES = rf"\s*(?:{_NAME}\s*)?(?:,\s*(?:{_NAME}\s*)?)*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?:(?P<absent>!)\s*)?(?P<present>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?P<compared>==|!=|=)\s*(?P<value>{_VALUE})"
    rf"|(?P<member>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>{_VALUES})\))\s*"
)
#: (key, value) pairs, sorted.
Labels = tuple[tuple[str, str], ...]
#: What tells the commas between requirements from those between values in parentheses.
_MARK = re.compile("[(),]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a node or label selector: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class BadSelector(ValueError):
    """The text is no label selector, because of this `part`."""

    def __init__(self, part: str) -> None:
        self.part = part
        super().__init__(f"{part!r} is no requirement of a label selector")


def all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy every requirement; without requirements they do."""
    return all(holds(one, labels) for one in requirements)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy the requirement; NotIn also holds without the label.

    An operator that label selectors do not have is never satisfied.
    """
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case _:
            return False


def parsed(text: str) -> tuple[Requirement, ...]:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`, as in `kubectl get -l`; "" selects everything.

    Raises BadSelector.
    """
    return tuple(map(_requirement, _parts(text))) if text.strip() else ()


def _parts(text: str) -> Iterator[str]:
    """The texts between the commas outside parentheses, in one pass however long the text is."""
    begin, is_inside = 0, False
    for mark in _MARK.finditer(text):
        if mark[0] != ",":
            is_inside = mark[0] == "("
        elif not is_inside:
            yield text[begin : mark.start()]
            begin = mark.end()
    yield text[begin:]


def _requirement(part: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(part)
    if found is None:
        raise BadSelector(part.strip())
    if found["present"]:
        return Requirement(found["present"], "DoesNotExist" if found["absent"] else "Exists")
    if found["key"]:
        operator = "NotIn" if found["compared"] == "!=" else "In"
        return Requirement(found["key"], operator, (found["value"],))
    values = tuple(value.strip() for value in found["values"].split(","))
    return Requirement(found["member"], "In" if found["set"] == "in" else "NotIn", values)
