"""What a pod may ask about other pods, and how much of it.

Kubernetes bounds terms and constraints only by the size of the whole object, and each costs time at
every decision about its pod. The limits here are far above what people write.
"""

from collections.abc import Iterator

from kubeshare_py.domain.bounds import INT32
from kubeshare_py.manifests.label_selector import RequirementFields, SelectorFields
from kubeshare_py.manifests.pods.inter_pod_fields import (
    AFFINITY,
    ANTI_AFFINITY,
    SPREAD,
    AffinityTermFields,
    InterPodFields,
    MalformedField,
    SpreadFields,
)

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
