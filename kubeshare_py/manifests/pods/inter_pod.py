"""What a pod asks about other pods: pod affinity, anti-affinity and topology spread.

Selectors mean what they mean to kube-scheduler. The API server adds the pod's labels of
`matchLabelKeys` and `mismatchLabelKeys` to an affinity term's selector when the pod is created;
where it did not (a manifest that is only checked), they are added here. To a spread constraint's
selector kube-scheduler adds the pod's labels of today, and so does this.

Sources (v1.36): k8s.io/kubernetes pkg/registry/core/pod/strategy.go and
pkg/scheduler/framework/plugins/podtopologyspread/common.go, k8s.io/kube-scheduler
framework/types.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from kubeshare_py.domain.label_selector import Labels, Requirement
from kubeshare_py.domain.needs.inter_pod import (
    AffinityTerm,
    InterPodTerms,
    PodSelector,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.label_selector import SelectorFields, requirements
from kubeshare_py.manifests.pods.inter_pod_fields import (
    AffinityTermFields,
    InterPodFields,
    MalformedField,
    SpreadFields,
    inter_pod_fields,
)
from kubeshare_py.manifests.pods.inter_pod_limits import check
from kubeshare_py.manifests.pods.pod_fields import ABSENT, PodSpec

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
