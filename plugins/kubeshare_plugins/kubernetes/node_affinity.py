"""Filter and score: nodeSelector and node affinity, all operators of the API."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from kubeshare_py.domain.pod import NodePreferences
from kubeshare_py.framework.scores import maximum
from kubeshare_py.plugin import (
    ArgumentError,
    BestCards,
    Depends,
    IntArray,
    NodeTerm,
    ReasonTable,
    Requirement,
    RowFilter,
    Rows,
    RowScore,
    Shape,
    checked,
)

# Which rows satisfy a requirement on a label; each distinct value is judged once.


Flags = NDArray[np.bool_]

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_INT64 = 1 << 63
_SETS = ("In", "NotIn")
_NUMBERS = ("Gt", "Lt")
_NOTHING: Mapping[str | None, int] = {}


def matches(requirement: Requirement, value: str | None) -> bool:
    """Whether a label with this value (None: not set) satisfies the requirement.

    An unknown operator is never satisfied.
    """
    judge = LabelJudge(requirement, Integers())
    return judge.verdict(value)


class Integers:
    """Label values as integers: each is parsed once for all requirements that compare it."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[str, int | None] = {}

    def of(self, text: str) -> int | None:
        """A 64 bit integer as Go's ParseInt accepts it.

        Python's int accepts more, such as `1_000`.
        """
        if text not in self._read:
            number = int(text) if _INTEGER.fullmatch(text) else _INT64
            self._read[text] = number if -_INT64 <= number < _INT64 else None
        return self._read[text]


class LabelJudge:
    """One requirement of one question, and its verdict on each value of its label.

    Values of a label are numbered, and numbers are only added while its column is the same object.
    """

    __slots__ = ("_bound", "_integers", "_operator", "_values", "_verdicts", "_wanted", "key")

    def __init__(self, requirement: Requirement, integers: Integers) -> None:
        """`integers` may be shared by all requirements of one question."""
        self.key = requirement.key
        self._operator = requirement.operator
        self._integers = integers
        self._wanted = frozenset(requirement.values if self._operator in _SETS else ())
        self._bound: int | None = None
        # Gt and Lt compare with one integer (apimachinery labels.Requirement).
        if self._operator in _NUMBERS and len(requirement.values) == 1:
            self._bound = integers.of(requirement.values[0])
        self._values = _NOTHING
        self._verdicts: Flags = np.zeros(0, np.bool_)

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy the requirement; shape (k,) bool."""
        numbers, values = rows.label_numbers(self.key)
        if values is not self._values:
            self._values, self._verdicts = values, np.zeros(0, np.bool_)
        known = len(self._verdicts)
        if known < len(values):
            self._verdicts = np.append(self._verdicts, self._judged(values, known))
        held: Flags = self._verdicts[numbers]
        return held

    def verdict(self, value: str | None) -> bool:
        """Whether a label with this value (None: not set) satisfies the requirement."""
        match self._operator:
            case "In":
                return value in self._wanted
            case "NotIn":
                # Without values it is malformed, and a malformed requirement must not open a node.
                return bool(self._wanted) and value not in self._wanted
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        if self._bound is None:
            return False
        number = self._integers.of(value)
        if number is None:
            return False
        return number > self._bound if self._operator == "Gt" else number < self._bound

    def _judged(self, values: Mapping[str | None, int], known: int) -> Flags:
        """Verdicts on the values from number `known` on."""
        wanted = self._wanted
        if known == 0 and wanted and len(wanted) < len(values):
            # Few values are wanted of many: only these are looked up.
            listed = np.zeros(len(values), np.bool_)
            listed[[values[value] for value in wanted if value in values]] = True
            return listed if self._operator == "In" else ~listed
        fresh = islice(values, known, None)
        return np.fromiter(map(self.verdict, fresh), np.bool_, len(values) - known)


# Which rows satisfy the terms of a node affinity.


#: The only field that the API allows.
NAME = "metadata.name"


class TermJudge:
    """Requirements that must all hold; a term without any matches no node."""

    __slots__ = ("_fields", "_labels")

    def __init__(self, term: NodeTerm, integers: Integers) -> None:
        self._labels = [LabelJudge(one, integers) for one in term.labels]
        self._fields = term.fields

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy the term; shape (k,) bool."""
        held: Flags = np.full(len(rows.index), bool(self._labels or self._fields))
        for label in self._labels:
            held &= label.holds(rows)
        for requirement in self._fields:
            held &= _is_named(requirement, rows)
        return held


class AnyTerm:
    """Terms of which one must hold."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[NodeTerm], integers: Integers) -> None:
        self._terms = [TermJudge(term, integers) for term in terms]

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy one of them; shape (k,) bool."""
        held: Flags = np.zeros(len(rows.index), np.bool_)
        for term in self._terms:
            held |= term.holds(rows)
        return held


class WeighedTerms:
    """Terms that count, each with its weight."""

    __slots__ = ("_terms",)

    def __init__(self, preferences: Sequence[NodePreferences], integers: Integers) -> None:
        self._terms = [
            (weight, TermJudge(term, integers))
            for one in preferences
            for weight, term in zip(one.weights, one.terms, strict=True)
        ]

    def sums(self, rows: Rows) -> IntArray:
        """The weights of the terms that hold, summed; shape (k,) int64."""
        total: IntArray = np.zeros(len(rows.index), np.int64)
        for weight, term in self._terms:
            total += weight * term.holds(rows)
        return total


def named_nodes(terms: Sequence[NodeTerm]) -> frozenset[str] | None:
    """The nodes that the terms name, if each names some; None if other nodes may satisfy one."""
    found: set[str] = set()
    for term in terms:
        listed = [
            frozenset(one.values) for one in term.fields if (one.key, one.operator) == (NAME, "In")
        ]
        if not listed:
            return None
        found |= frozenset.intersection(*listed)
    return frozenset(found) if terms else None


def _is_named(requirement: Requirement, rows: Rows) -> Flags | bool:
    """Whether the rows' names satisfy it; In and NotIn are the only operators of fields."""
    if requirement.key != NAME or not requirement.values:
        return False
    if requirement.operator == "In":
        return rows.named(requirement.values)
    return ~rows.named(requirement.values) if requirement.operator == "NotIn" else False


# The argument `addedAffinity` of NodeAffinity: node affinity of all pods of a profile.
#
# Its fields are those of `spec.affinity.nodeAffinity`:
# https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#kubescheduler-config-k8s-io-v1-NodeAffinityArgs


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Arguments(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """No other fields: a misspelt one would be ignored."""


class LabelLine(_Arguments, frozen=True):
    """A requirement on a label."""

    key: Annotated[str, Meta(min_length=1)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class FieldLine(_Arguments, frozen=True):
    """A requirement on the node's name."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1)]


class AddedTerm(_Arguments, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[LabelLine, ...] = ()
    match_fields: tuple[FieldLine, ...] = ()


class AddedSelector(_Arguments, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[AddedTerm, ...]


class AddedPreference(_Arguments, frozen=True):
    """A term that counts."""

    weight: Annotated[int, Meta(ge=0, le=100)]
    preference: AddedTerm


class AddedAffinity(_Arguments, frozen=True):
    """The argument."""

    required: AddedSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[AddedPreference, ...] = msgspec.field(default=(), name=_PREFERRED)


def added_affinity(given: object) -> tuple[tuple[NodeTerm, ...] | None, NodePreferences | None]:
    """The terms of which nodes must satisfy one, None without any, and the preferred ones.

    Raises ArgumentError.
    """
    path = "addedAffinity"
    found = AddedAffinity() if given is None else checked(given, AddedAffinity, path)
    required, where = None, f"{path}.{_REQUIRED}.nodeSelectorTerms"
    if found.required is not None:
        terms = found.required.node_selector_terms
        required = tuple(_term(term, f"{where}[{at}]") for at, term in enumerate(terms))
    preferred = [
        (one.weight, _term(one.preference, f"{path}.{_PREFERRED}[{at}].preference"))
        for at, one in enumerate(found.preferred)
        if one.weight
    ]
    if not preferred:
        return required, None
    weights, preferences = zip(*preferred, strict=True)
    return required, NodePreferences(weights, preferences)


def _term(term: AddedTerm, path: str) -> NodeTerm:
    for at, line in enumerate(term.match_expressions):
        wrong = _wrong_values(line)
        if wrong:
            raise ArgumentError(f"{path}.matchExpressions[{at}].values: {wrong}")
    return NodeTerm(
        tuple(Requirement(one.key, one.operator, one.values) for one in term.match_expressions),
        tuple(Requirement(NAME, one.operator, one.values) for one in term.match_fields),
    )


def _wrong_values(line: LabelLine) -> str:
    """What is wrong with the values for this operator; "" if nothing is."""
    match line.operator:
        case "In" | "NotIn":
            return "" if line.values else f"{line.operator} needs a value"
        case "Exists" | "DoesNotExist":
            return f"{line.operator} has no values" if line.values else ""
        case _:
            one = line.values[0] if len(line.values) == 1 else ""
            known = Integers().of(one) is not None
            return "" if known else f"{line.operator} needs one integer"


_UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
_CONFLICT = "pod affinity terms conflict"


class NodeAffinity:
    """The node selector and at least one of the required terms must hold.

    The weights of the preferred terms that hold are summed; the node with the highest sum gets 100
    points, the others in proportion. The argument `addedAffinity` is node affinity of all pods of
    the profile, required terms and preferred ones.
    """

    name = "NodeAffinity"
    depends = score_depends = Depends.STATIC
    normaliser = staticmethod(maximum)

    def __init__(self, addedAffinity: Any = None) -> None:
        """Raises ArgumentError for a bad entry."""
        self._required, self._preferred = added_affinity(addedAffinity)
        adds = self._required is not None or self._preferred is not None
        self.only_for = () if adds else ("node_selector", "terms", "preferences")

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without either, unless the profile adds terms."""
        own, added = required_affinity(shape), self._required
        if own is None and added is None:
            return None
        enforced = None if added is None else AnyTerm(added, Integers())
        unmatched = reasons.register(self.name, _UNMATCHED, resolvable=False)
        unenforced = reasons.register(self.name, _ENFORCED, resolvable=False)
        named = named_nodes(shape.terms or ())
        unnamed = 0
        if named is not None:
            # Other nodes than the pod names, as a DaemonSet's pods do, are left out at once.
            unnamed = reasons.narrow(self.name) if named else reasons.refuse(self.name, _CONFLICT)

        def ask(rows: Rows) -> IntArray:
            masks: IntArray = np.zeros(len(rows.index), np.int64)
            if own is not None:
                masks = np.where(own(rows), masks, unmatched)
            if enforced is not None:
                masks = np.where(enforced.holds(rows), masks, unenforced)
            return masks if named is None else np.where(rows.named(named), masks, unnamed)

        return ask

    def score(self, shape: Shape) -> RowScore | None:
        """The sum of the weights of what holds; no question for pods without preferences."""
        preferences = [one for one in (self._preferred, shape.preferences) if one is not None]
        if not preferences:
            return None
        terms = WeighedTerms(preferences, Integers())

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return terms.sums(rows)

        return ask


def required_affinity(shape: Shape) -> Callable[[Rows], Flags] | None:
    """Which rows have what the pod's node selector and required affinity ask for, (k,) bool.

    None if the pod has neither.
    """
    if not shape.node_selector and shape.terms is None:
        return None
    integers = Integers()
    selector = [
        LabelJudge(Requirement(key, "In", (value,)), integers) for key, value in shape.node_selector
    ]
    required = None if shape.terms is None else AnyTerm(shape.terms, integers)

    def ask(rows: Rows) -> Flags:
        fits: Flags = np.ones(len(rows.index), np.bool_)
        for label in selector:
            fits &= label.holds(rows)
        return fits if required is None else fits & required.holds(rows)

    return ask
