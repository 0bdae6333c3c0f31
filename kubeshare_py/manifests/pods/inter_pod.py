"""What a pod asks about other pods: pod affinity, anti-affinity and topology spread."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kubeshare_py.domain.cluster_objects import Labels, Requirement
from kubeshare_py.domain.pod import (
    AffinityTerm,
    InterPodTerms,
    PodSelector,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.domain.quantity import INT32
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.common_definitions import (
    RequirementFields,
    SelectorFields,
    requirements,
)
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pods.pod_fields import ABSENT, PodSpec

# Pod affinity and topology spread constraints as they come over the wire.
#
# They stay undecoded in the pod's own fields, because pods of one template all say the same: each
# text is decoded once.
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#scheduling


AFFINITY = "spec.affinity.podAffinity"
ANTI_AFFINITY = "spec.affinity.podAntiAffinity"
SPREAD = "spec.topologySpreadConstraints"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

T = TypeVar("T")


class _InterPodFieldsBase(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Camel case in JSON, no cycles, no changes."""


class AffinityTermFields(_InterPodFieldsBase, frozen=True):
    """Pods by their labels and namespaces, and the node label of the topology domains."""

    topology_key: str = ""
    label_selector: SelectorFields | None = None
    namespace_selector: SelectorFields | None = None
    namespaces: tuple[str, ...] | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedTermFields(_InterPodFieldsBase, frozen=True):
    """A preference for a term."""

    weight: int = 0
    pod_affinity_term: AffinityTermFields = AffinityTermFields()


class InterPodAffinityFields(_InterPodFieldsBase, frozen=True):
    """`podAffinity` or `podAntiAffinity`."""

    required: tuple[AffinityTermFields, ...] | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[WeightedTermFields, ...] | None = msgspec.field(default=None, name=_PREFERRED)

    def terms(self, path: str) -> list[tuple[str, AffinityTermFields]]:
        """All terms, each with its path; `path` is that of the whole."""
        hard = enumerate(self.required or ())
        soft = enumerate(self.preferred or ())
        return [
            *((f"{path}.{_REQUIRED}[{at}]", one) for at, one in hard),
            *(
                (f"{path}.{_PREFERRED}[{at}].podAffinityTerm", one.pod_affinity_term)
                for at, one in soft
            ),
        ]


class SpreadFields(_InterPodFieldsBase, frozen=True):
    """A topology spread constraint."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: SelectorFields | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InterPodFields:
    """All that a pod asks about other pods."""

    affinity: InterPodAffinityFields
    anti_affinity: InterPodAffinityFields
    spread: tuple[SpreadFields, ...]

    @property
    def terms(self) -> list[tuple[str, AffinityTermFields]]:
        """All affinity terms, each with its path."""
        return self.affinity.terms(AFFINITY) + self.anti_affinity.terms(ANTI_AFFINITY)

    @property
    def constraints(self) -> list[tuple[str, SpreadFields]]:
        """All spread constraints, each with its path."""
        return [(f"{SPREAD}[{at}]", one) for at, one in enumerate(self.spread)]


class MalformedField(ValueError):
    """A field is not what the API allows: its path, and the rule that it breaks."""

    def __init__(self, path: str, rule: str) -> None:
        self.path, self.rule = path, rule
        super().__init__(f"{path} {rule}")


def inter_pod_fields(affinity: str, anti_affinity: str, spread: str) -> InterPodFields:
    """Decode the three texts, "" where a pod has none. Raises MalformedField."""
    return InterPodFields(
        _decoded(AFFINITY, affinity, InterPodAffinityFields) or InterPodAffinityFields(),
        _decoded(ANTI_AFFINITY, anti_affinity, InterPodAffinityFields) or InterPodAffinityFields(),
        _decoded(SPREAD, spread, tuple[SpreadFields, ...]) or (),
    )


def _decoded(path: str, text: str, kind: type[T]) -> T | None:
    if text in ("", "null"):
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except UNDECODABLE as error:
        raise MalformedField(path, f"cannot be read: {error}") from error


# What a pod may ask about other pods, and how much of it.
#
# Kubernetes bounds terms and constraints only by the size of the whole object, and each costs time
# at every decision about its pod. The limits here are far above what people write.


#: Terms in podAffinity and podAntiAffinity together, and spread constraints.
MAX_TERMS = 100
MAX_CONSTRAINTS = 100
#: Labels and requirements in all selectors of terms, or of constraints, and their values;
#: namespaces and the keys of matchLabelKeys and mismatchLabelKeys count as values.
MAX_REQUIREMENTS = 500
MAX_VALUES = 2000
#: Characters in all of them.
MAX_CHARACTERS = 64 * 1024
_MAX_WEIGHT = 100

_SETS, _PRESENCE = ("In", "NotIn"), ("Exists", "DoesNotExist")
_ACTIONS, _POLICIES = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")


def check(fields: InterPodFields) -> None:
    """Raises MalformedField if a limit is exceeded, or if the API would not allow a field."""
    terms, constraints = fields.terms, fields.constraints
    _limit(_shared(fields), "terms", len(terms), MAX_TERMS)
    _limit(SPREAD, "constraints", len(constraints), MAX_CONSTRAINTS)
    _limit_parts(_shared(fields), [part for _, term in terms for part in _parts(term)])
    _limit_parts(SPREAD, [part for _, one in constraints for part in _parts_of_constraint(one)])
    for path, term in terms:
        _check_term(path, term)
    for path, constraint in constraints:
        _check_constraint(path, constraint)
    _check_weights(fields)


def _shared(fields: InterPodFields) -> str:
    """The path of the kind of affinity that the pod has, or of both."""
    near, far = fields.affinity.terms(""), fields.anti_affinity.terms("")
    return "spec.affinity" if near and far else ANTI_AFFINITY if far else AFFINITY


def _parts(term: AffinityTermFields) -> Iterator[tuple[str, ...]]:
    """Each key with its values, and "" with the namespaces and the keys of the pod's labels."""
    yield from _labels(term.label_selector)
    yield from _labels(term.namespace_selector)
    yield ("", *(term.namespaces or ()))
    yield ("", *(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))


def _parts_of_constraint(constraint: SpreadFields) -> Iterator[tuple[str, ...]]:
    yield from _labels(constraint.label_selector)
    yield ("", *(constraint.match_label_keys or ()))


def _labels(selector: SelectorFields | None) -> Iterator[tuple[str, ...]]:
    if selector is not None:
        yield from (selector.match_labels or {}).items()
        yield from ((line.key, *(line.values or ())) for line in selector.match_expressions or ())


def _limit_parts(path: str, parts: list[tuple[str, ...]]) -> None:
    _limit(path, "requirements", sum(part[0] != "" for part in parts), MAX_REQUIREMENTS)
    _limit(path, "values", sum(map(len, parts)) - len(parts), MAX_VALUES)
    _limit(path, "characters", sum(len(text) for part in parts for text in part), MAX_CHARACTERS)


def _limit(path: str, what: str, count: int, most: int) -> None:
    _require(count <= most, path, f"has {count} {what}; this scheduler takes at most {most}")


def _check_term(path: str, term: AffinityTermFields) -> None:
    _require(bool(term.topology_key), f"{path}.topologyKey", "is empty")
    _check_selector(f"{path}.labelSelector", term.label_selector)
    _check_selector(f"{path}.namespaceSelector", term.namespace_selector)


def _check_selector(path: str, selector: SelectorFields | None) -> None:
    lines = (selector.match_expressions or ()) if selector is not None else ()
    for at, line in enumerate(lines):
        _check_line(f"{path}.matchExpressions[{at}]", line)


def _check_line(path: str, line: RequirementFields) -> None:
    operator = line.operator
    _one_of(f"{path}.operator", operator, (*_SETS, *_PRESENCE))
    if operator in _SETS:
        _require(bool(line.values), f"{path}.values", f"is empty; {operator} needs values")
    else:
        _require(not line.values, f"{path}.values", f"has values; {operator} takes none")


def _check_weights(fields: InterPodFields) -> None:
    for path, kind in ((AFFINITY, fields.affinity), (ANTI_AFFINITY, fields.anti_affinity)):
        weights = [one.weight for one in kind.preferred or ()]
        wrong = [one for one in weights if not 1 <= one <= _MAX_WEIGHT]
        _require(not wrong, path, f"has a weight {wrong[0] if wrong else 0}; it must be 1 to 100")


def _check_constraint(path: str, constraint: SpreadFields) -> None:
    _require(bool(constraint.topology_key), f"{path}.topologyKey", "is empty")
    for name, number in (("maxSkew", constraint.max_skew), ("minDomains", constraint.min_domains)):
        _require(
            number is None or 1 <= number <= INT32.most, f"{path}.{name}", "is no number from 1"
        )
    _one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _ACTIONS)
    _one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, (None, *_POLICIES))
    _one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, (None, *_POLICIES))
    _check_selector(f"{path}.labelSelector", constraint.label_selector)


def _one_of(path: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    names = " or ".join(one for one in allowed if one is not None)
    _require(value in allowed, path, f"is {value!r}; this scheduler knows {names}")


def _require(holds: bool, path: str, rule: str) -> None:
    if not holds:
        raise MalformedField(path, rule)


# What a pod asks about other pods: pod affinity, anti-affinity and topology spread.
#
# Selectors mean what they mean to kube-scheduler. The API server adds the pod's labels of
# `matchLabelKeys` and `mismatchLabelKeys` to an affinity term's selector when the pod is created;
# where it did not (a manifest that is only checked), they are added here. To a spread constraint's
# selector kube-scheduler adds the pod's labels of today, and so does this.
#
# Sources (v1.36): k8s.io/kubernetes pkg/registry/core/pod/strategy.go and
# pkg/scheduler/framework/plugins/podtopologyspread/common.go, k8s.io/kube-scheduler
# framework/types.go.


_HARD, _HONOR = "DoNotSchedule", "Honor"


class AskedOfOthers(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks about other pods, None if nothing; or why that cannot be understood.

    `crosses_namespaces`: a term of its affinity names namespaces, or selects them.
    """

    terms: InterPodTerms | None = None
    problem: InvalidRequest | None = None
    crosses_namespaces: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The decoded texts. `keys` are the pod's own labels that its terms look at, sorted."""

    fields: InterPodFields
    keys: tuple[str, ...]
    crosses_namespaces: bool


_NOTHING = AskedOfOthers()


def asked_of_others(
    spec: PodSpec, namespace: str, labels: Mapping[str, str] | None
) -> AskedOfOthers:
    """What the pod asks. Its labels in the answer are those that its own terms look at."""
    affinity = spec.affinity
    near = affinity.pod_affinity if affinity else ABSENT
    far = affinity.pod_anti_affinity if affinity else ABSENT
    spread = spec.topology_spread_constraints
    if near is ABSENT and far is ABSENT and spread is ABSENT:
        return _NOTHING
    asked = _asked(_text(near), _text(far), _text(spread))
    if not isinstance(asked, _Asked):
        return AskedOfOthers(problem=asked)
    own = tuple((key, labels[key]) for key in asked.keys if key in labels) if labels else ()
    return AskedOfOthers(_terms(asked, namespace, own), crosses_namespaces=asked.crosses_namespaces)


def _text(raw: msgspec.Raw) -> str:
    # Texts that the pod's decoder skips may be no UTF-8.
    return bytes(raw).decode(errors="replace")


@remembered(4096)
def _asked(near: str, far: str, spread: str) -> _Asked | InvalidRequest | None:
    """The texts of the three fields, decoded; None if they ask for nothing."""
    try:
        fields = inter_pod_fields(near, far, spread)
        check(fields)
    except MalformedField as error:
        return InvalidRequest(field=error.path, rule=error.rule)
    terms = [term for _, term in fields.terms]
    if not terms and not fields.spread:
        return None
    selectors = [one.label_selector for one in terms]
    selectors += [one.label_selector for one in fields.spread]
    keys = {line.key for selector in selectors for line in _lines(selector)}
    for term in terms:
        keys |= {*(term.match_label_keys or ()), *(term.mismatch_label_keys or ())}
    for constraint in fields.spread:
        keys |= {*(constraint.match_label_keys or ())}
    crosses = any(term.namespaces or term.namespace_selector is not None for term in terms)
    return _Asked(fields, tuple(sorted(keys)), crosses)


@remembered(4096)
def _terms(asked: _Asked, namespace: str, labels: Labels) -> InterPodTerms:
    near, far, of_pod = asked.fields.affinity, asked.fields.anti_affinity, dict(labels)
    preferred = [
        WeightedTerm(_term(one.pod_affinity_term, namespace, of_pod), sign * one.weight)
        for sign, kind in ((1, near), (-1, far))
        for one in kind.preferred or ()
    ]
    return InterPodTerms(
        namespace=namespace,
        labels=labels,
        affinity=tuple(_term(one, namespace, of_pod) for one in near.required or ()),
        anti_affinity=tuple(_term(one, namespace, of_pod) for one in far.required or ()),
        preferred=tuple(preferred),
        spread=tuple(_constraint(one, namespace, of_pod) for one in asked.fields.spread),
    )


def _term(fields: AffinityTermFields, namespace: str, labels: Mapping[str, str]) -> AffinityTerm:
    names = set(fields.namespaces or ())
    if not names and fields.namespace_selector is None:
        names = {namespace}
    lines = None
    if fields.label_selector is not None:
        lines = _lines(fields.label_selector)
        known = {line.key for line in lines}
        lines += _merged("In", fields.match_label_keys, labels, known)
        lines += _merged("NotIn", fields.mismatch_label_keys, labels, known)
    of_namespaces = fields.namespace_selector
    selector = PodSelector(
        tuple(sorted(names)),
        None if lines is None else _sorted(lines),
        None if of_namespaces is None else _sorted(_lines(of_namespaces)),
    )
    return AffinityTerm(selector, fields.topology_key)


def _constraint(
    fields: SpreadFields, namespace: str, labels: Mapping[str, str]
) -> SpreadConstraint:
    lines = None
    if fields.label_selector is not None:
        lines = _lines(fields.label_selector)
        lines += _merged("In", fields.match_label_keys, labels, ())
    return SpreadConstraint(
        max_skew=fields.max_skew,
        topology_key=fields.topology_key,
        selector=PodSelector((namespace,), None if lines is None else _sorted(lines)),
        hard=fields.when_unsatisfiable == _HARD,
        min_domains=fields.min_domains or 1,
        honours_affinity=fields.node_affinity_policy in (None, _HONOR),
        honours_taints=fields.node_taints_policy == _HONOR,
    )


def _merged(
    operator: str,
    keys: tuple[str, ...] | None,
    labels: Mapping[str, str],
    known: Iterable[str],
) -> tuple[Requirement, ...]:
    """The pod's labels of these keys as requirements, without those that are known already."""
    missing = [key for key in keys or () if key in labels and key not in known]
    return tuple(Requirement(key, operator, (labels[key],)) for key in missing)


def _lines(selector: SelectorFields | None) -> tuple[Requirement, ...]:
    return () if selector is None else requirements(selector)


def _sorted(lines: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The same requirements in one order, so that equal selectors are equal values."""
    unique = {(line.key, line.operator, tuple(sorted(set(line.values)))) for line in lines}
    return tuple(Requirement(*one) for one in sorted(unique))
