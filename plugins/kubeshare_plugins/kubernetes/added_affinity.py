"""The argument `addedAffinity` of NodeAffinity: node affinity of all pods of a profile.

Its fields are those of `spec.affinity.nodeAffinity`:
https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#kubescheduler-config-k8s-io-v1-NodeAffinityArgs
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubeshare_plugins.kubernetes.label_judge import Integers
from kubeshare_plugins.kubernetes.node_terms import NAME
from kubeshare_py.domain.pod import NodePreferences
from kubeshare_py.plugin import ArgumentError, NodeTerm, Requirement, checked

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
