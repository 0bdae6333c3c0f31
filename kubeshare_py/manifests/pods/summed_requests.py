"""The sum of what a pod's containers need at once, and what scores count besides.

Scores count some cpu and memory for each container that asks for none, so that a node with many
such pods is not taken for an empty one (CalculateResource in pkg/scheduler/framework/types.go of
github.com/kubernetes/kubernetes).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.domain.pod import UNREQUESTED
from kubeshare_py.domain.quantity import MAX, BadQuantity, Quantity, amount
from kubeshare_py.domain.remembered import remembered

QuantityItems = tuple[tuple[str, Quantity], ...]
#: Lists of amounts; for each resource the largest one counts.
Alternatives = tuple[QuantityItems, ...]
_ResourceAmounts = dict[str, int]

#: What scores count for a container without a request: DefaultMilliCPURequest and
#: DefaultMemoryRequest of pkg/scheduler/util/pod_resources.go.
_IF_MISSING: Mapping[str, int] = {"cpu": 100, "memory": 200 << 20}


@dataclass(frozen=True, slots=True)
class Demand:
    """Sorted (name, amount) pairs without zeros and without `pods`.

    And fields that are no quantities. `unrequested` is what scores count besides, under the names
    of `UNREQUESTED`.
    """

    resources: tuple[tuple[str, int], ...]
    problems: tuple[str, ...] = ()
    unrequested: tuple[tuple[str, int], ...] = ()


@remembered(8192)
def summed(
    containers: tuple[Alternatives, ...],
    inits: tuple[tuple[bool, Alternatives], ...],
    level: Alternatives,
    level_limits: QuantityItems,
    overhead: QuantityItems,
) -> Demand:
    """The sum; cached, because pods of one template differ in nothing that matters here.

    `inits` say which are sidecars. `level` and `level_limits` are the pod's own resources.
    """
    problems: list[str] = []
    of_pod = _largest(level, problems), _largest((level_limits,), problems)
    over = _largest((overhead,), problems)

    def total(missing: Mapping[str, int], wrong: list[str]) -> _ResourceAmounts:
        running = _aggregated(containers, inits, missing, wrong)
        _replace(running, *of_pod)
        _add(running, over)
        return running

    amounts = total({}, problems)
    resources = sorted((name, min(count, MAX)) for name, count in amounts.items() if name != "pods")
    every = (*containers, *(one for _, one in inits))
    missing = _missing(every, (*level, level_limits), overhead)
    if not missing:
        return Demand(tuple(resources), tuple(problems))
    scored = total(missing, [])
    unrequested = [
        (UNREQUESTED[name], scored[name] - amounts.get(name, 0))
        for name in missing
        if scored.get(name, 0) > amounts.get(name, 0)
    ]
    return Demand(tuple(resources), tuple(problems), tuple(unrequested))


def _missing(
    containers: tuple[Alternatives, ...], level: Alternatives, overhead: QuantityItems
) -> Mapping[str, int]:
    """What scores count for each container that lacks such a request.

    A pod with resources of its own has none to miss where it, or a container, asks.
    """
    asked = [_names(one) for one in containers]
    of_pod = _names(level)
    if any(map(_is_pod_level, of_pod)):
        every = of_pod.union(_names((overhead,)), *asked)
        return {name: count for name, count in _IF_MISSING.items() if name not in every}
    lacking = {name for name in _IF_MISSING for one in asked if name not in one}
    return {name: count for name, count in _IF_MISSING.items() if name in lacking}


def _names(alternatives: Alternatives) -> frozenset[str]:
    return frozenset(name for items in alternatives for name, _ in items)


def _aggregated(
    containers: tuple[Alternatives, ...],
    inits: tuple[tuple[bool, Alternatives], ...],
    missing: Mapping[str, int],
    problems: list[str],
) -> _ResourceAmounts:
    """What all containers need at once, with `missing` for each that does not say."""

    def own(alternatives: Alternatives) -> _ResourceAmounts:
        asked = _largest(alternatives, problems)
        for name in missing.keys() - _names(alternatives):
            asked[name] = missing[name]
        return asked

    running: _ResourceAmounts = {}
    for alternatives in containers:
        _add(running, own(alternatives))
    sidecars: _ResourceAmounts = {}
    peak: _ResourceAmounts = {}
    for is_sidecar, alternatives in inits:
        asked = own(alternatives)
        if is_sidecar:
            _add(sidecars, asked)
        else:
            _add(asked, sidecars)
            _raise(peak, asked)
    _add(running, sidecars)
    _raise(running, peak)
    return running


def _largest(alternatives: Alternatives, problems: list[str]) -> _ResourceAmounts:
    amounts: _ResourceAmounts = {}
    for items in alternatives:
        for name, quantity in items:
            try:
                _raise(amounts, {name: amount(name, quantity)})
            except BadQuantity as error:
                problems.append(f"resources[{name}]: {error}")
    return amounts


def _is_pod_level(name: str) -> bool:
    """Whether `spec.resources` of a pod may name this resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _replace(total: _ResourceAmounts, requests: _ResourceAmounts, limits: _ResourceAmounts) -> None:
    """Replace the sum by pod-level resources; limits count only without requests."""
    for name in {**limits, **requests}:
        if _is_pod_level(name):
            total[name] = requests[name] if name in requests else total.get(name) or limits[name]


def _add(total: _ResourceAmounts, more: _ResourceAmounts) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(total: _ResourceAmounts, least: _ResourceAmounts) -> None:
    for name, count in least.items():
        if count > total.get(name, 0):
            total[name] = count
