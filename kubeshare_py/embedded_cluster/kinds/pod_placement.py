"""Pod affinity, spread and host ports: defaults, merged label keys, what may be asked (v1)."""

from collections.abc import Iterable, Iterator
from typing import Any

from kubeshare_py.embedded_cluster.protocol.label_selectors import selector_causes
from kubeshare_py.embedded_cluster.protocol.names import qualified_problem
from kubeshare_py.embedded_cluster.protocol.node_selectors import node_selector_causes
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    not_allowed,
    required,
    unsupported,
    wrong,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"
_HEAVIEST = 100


def merge_label_keys(pod: Json) -> None:
    """Add what matchLabelKeys and mismatchLabelKeys mean to the selectors beside them.

    As the real server does when a pod is created:
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#matchlabelkeys
    """
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    terms = [term for _, term in _affinity_terms(spec.get("affinity") or {}, "")]
    for term in [*terms, *(spec.get("topologySpreadConstraints") or [])]:
        keys = [
            *((key, "In") for key in term.get("matchLabelKeys") or []),
            *((key, "NotIn") for key in term.get("mismatchLabelKeys") or []),
        ]
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key, operator in keys
            if key in labels
        ]
        selector = term.get("labelSelector")
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]


def default_host_ports(spec: Json, containers: Iterable[Json]) -> None:
    """A pod on its node's network has all its ports on the node."""
    if not spec.get("hostNetwork"):
        return
    for container in containers:
        for port in container.get("ports") or []:
            port.setdefault("hostPort", port.get("containerPort"))


def placement_causes(spec: Json, path: str) -> list[StatusCause]:
    """Everything wrong with affinity, spread and host ports."""
    affinity = spec.get("affinity") or {}
    required_nodes = (affinity.get("nodeAffinity") or {}).get(_REQUIRED)
    causes: list[StatusCause] = []
    if required_nodes is not None:
        where = f"{path}.affinity.nodeAffinity.{_REQUIRED}"
        causes += node_selector_causes(required_nodes, where)
    for where, term in _affinity_terms(affinity, f"{path}.affinity"):
        causes += _term_causes(term, where)
    causes += _weight_causes(affinity, f"{path}.affinity")
    constraints = spec.get("topologySpreadConstraints") or []
    for index, constraint in enumerate(constraints):
        where = f"{path}.topologySpreadConstraints[{index}]"
        causes += _spread_causes(constraint, constraints[index + 1 :], where)
    return [*causes, *_port_causes(spec.get("containers") or [], f"{path}.containers")]


def _affinity_terms(affinity: Json, path: str) -> Iterator[tuple[str, Json]]:
    """The terms about other pods, each with its path."""
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        for index, term in enumerate(part.get(_REQUIRED) or []):
            yield f"{path}.{kind}.{_REQUIRED}[{index}]", term
        for index, weighted in enumerate(part.get(_PREFERRED) or []):
            where = f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm"
            yield where, weighted.get("podAffinityTerm") or {}


def _weight_causes(affinity: Json, path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        for index, one in enumerate((affinity.get(kind) or {}).get(_PREFERRED) or []):
            weight = one.get("weight", 0)
            if not 0 < weight <= _HEAVIEST:
                where = f"{path}.{kind}.{_PREFERRED}[{index}].weight"
                causes.append(wrong(where, weight, f"must be in the range 1-{_HEAVIEST}"))
    return causes


def _term_causes(term: Json, path: str) -> list[StatusCause]:
    causes = selector_causes(term.get("labelSelector") or {}, f"{path}.labelSelector")
    causes += selector_causes(term.get("namespaceSelector") or {}, f"{path}.namespaceSelector")
    causes += _key_causes(term, path)
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    if problem := qualified_problem(key):
        causes.append(wrong(f"{path}.topologyKey", key, problem))
    return causes


def _key_causes(term: Json, path: str) -> list[StatusCause]:
    """Label keys need a selector, and may not be in it or in both lists."""
    causes: list[StatusCause] = []
    selector = term.get("labelSelector")
    matched, others = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", others)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            causes.append(not_allowed(f"{path}.{name}", text))
    selected = [one.get("key") for one in (selector or {}).get("matchExpressions") or []]
    selected += (selector or {}).get("matchLabels") or {}
    for index, key in enumerate(matched):
        if selected.count(key) > 1:
            text = "exists in both matchLabelKeys and labelSelector"
            causes.append(wrong(f"{path}[{index}]", key, text))
        if key in others:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(wrong(f"{path}.matchLabelKeys[{index}]", key, text))
    return causes


def _spread_causes(constraint: Json, later: list[Any], path: str) -> list[StatusCause]:
    key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
    skew, domains = constraint.get("maxSkew", 0), constraint.get("minDomains")
    causes: list[StatusCause] = []
    if skew <= 0:
        causes.append(wrong(f"{path}.maxSkew", skew, _POSITIVE))
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    if action not in _ACTIONS:
        causes.append(unsupported(f"{path}.whenUnsatisfiable", action, _ACTIONS))
    if any(
        (one.get("topologyKey"), one.get("whenUnsatisfiable")) == (key, action) for one in later
    ):
        where = f"{path}.{{topologyKey, whenUnsatisfiable}}"
        causes.append(duplicate(where, f"{{{key}, {action}}}"))
    if domains is not None:
        causes += _domain_causes(domains, action, f"{path}.minDomains")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(name, "Honor") not in _POLICIES:
            causes.append(unsupported(f"{path}.{name}", constraint[name], _POLICIES))
    causes += _key_causes(constraint, path)
    selector = constraint.get("labelSelector") or {}
    return [*causes, *selector_causes(selector, f"{path}.labelSelector")]


def _domain_causes(domains: int, action: str, path: str) -> list[StatusCause]:
    causes = [] if domains > 0 else [wrong(path, domains, _POSITIVE)]
    if action != _ACTIONS[0]:
        text = f"can only use minDomains if whenUnsatisfiable={_ACTIONS[0]}, not {action}"
        causes.append(wrong(path, domains, text))
    return causes


def _port_causes(containers: list[Any], path: str) -> list[StatusCause]:
    """No two containers have one port of the node."""
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for at, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            shown = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in seen:
                causes.append(duplicate(f"{path}[{at}].ports[{index}].hostPort", shown))
            seen.add(shown)
    return causes
