"""A pod's effective requests of cpu, memory and other countable resources.

The rules are those of the scheduler and kubelet (PodRequests in k8s.io/component-helpers): init
containers run one after the other, before the others, and sidecars (init containers with
restartPolicy Always) keep running; `spec.resources` replaces the sum for cpu, memory and huge
pages; a bound pod in the middle of a resize takes the most of what it wants, was granted and has.
"""

from dataclasses import dataclass

from kubeshare_py.domain.quantity import MAX, BadQuantity, Quantity, amount
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.pods.pod_fields import (
    Container,
    ContainerResources,
    ContainerStatus,
    PodSpec,
    PodStatus,
    ResourceList,
)

_Items = tuple[tuple[str, Quantity], ...]
#: Lists of amounts; for each resource the largest one counts.
_Alternatives = tuple[_Items, ...]
_ResourceAmounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Demand:
    """Sorted (name, amount) pairs without zeros and without `pods`.

    And fields that are no quantities.
    """

    resources: tuple[tuple[str, int], ...]
    problems: tuple[str, ...] = ()


def demand(spec: PodSpec, status: PodStatus | None) -> Demand:
    """The pod's demand. `status` is a bound pod's; None if no kubelet has seen the pod yet."""
    containers, inits, level = spec.containers or (), spec.init_containers or (), spec.resources
    statuses = {one.name: one for one in _statuses(status)} if status else {}
    if status is None or _asasked_amounts(status, statuses, containers + inits):
        return _demand(
            tuple([(asked_amounts(one.resources),) for one in containers]),
            tuple([(is_sidecar(one), (asked_amounts(one.resources),)) for one in inits]),
            (_items(level.requests),) if level else (),
            _items(level.limits) if level else (),
            _items(spec.overhead),
        )
    refused = _resize_refused(status)
    held = (_items(status.allocated_resources), _actual(status.resources))
    return _demand(
        tuple([_alternatives(one, statuses.get(one.name), refused) for one in containers]),
        tuple(
            [
                (is_sidecar(one), _alternatives(one, statuses.get(one.name), refused))
                for one in inits
            ]
        ),
        _wanted_or_held(_items(level.requests), held, refused) if level else (),
        _items(level.limits) if level else (),
        _items(spec.overhead),
    )


def _items(resources: ResourceList | None) -> _Items:
    return tuple(resources.items()) if resources else ()


def asked_amounts(resources: ContainerResources | None) -> _Items:
    """A container's requests; a limit without a request counts as one."""
    if resources is None:
        return ()
    if resources.limits and resources.requests:
        return tuple({**resources.limits, **resources.requests}.items())
    return _items(resources.requests or resources.limits)


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running."""
    return container.restart_policy == "Always"


def _asasked_amounts(
    status: PodStatus, statuses: dict[str, ContainerStatus], containers: tuple[Container, ...]
) -> bool:
    """Whether the pod has what its spec asks for, as nearly all have.

    A short way to the same sum.
    """
    if status.allocated_resources or status.resources:
        return False
    for container in containers:
        found = statuses.get(container.name)
        if found is not None and found.resources is not None:
            wanted = (container.resources.requests if container.resources else None) or None
            held = (found.allocated_resources or None, found.resources.requests or None)
            if held != (wanted, wanted):
                return False
    return True


def _resize_refused(status: PodStatus) -> bool:
    """Whether the node can never grant what the spec asks for.

    Then only what the pod has counts.
    """
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _statuses(status: PodStatus) -> tuple[ContainerStatus, ...]:
    return (status.init_container_statuses or ()) + (status.container_statuses or ())


def _actual(resources: ContainerResources | None) -> _Items:
    return _items(resources.requests) if resources else ()


def _alternatives(
    container: Container, status: ContainerStatus | None, refused: bool
) -> _Alternatives:
    wanted = asked_amounts(container.resources)
    if status is None or status.resources is None:
        return (wanted,)
    held = (_items(status.allocated_resources), _actual(status.resources))
    return _wanted_or_held(wanted, held, refused)


def _wanted_or_held(wanted: _Items, held: _Alternatives, refused: bool) -> _Alternatives:
    return held if refused and any(held) else (wanted, *held)


@remembered(8192)
def _demand(
    containers: tuple[_Alternatives, ...],
    inits: tuple[tuple[bool, _Alternatives], ...],
    level: _Alternatives,
    level_limits: _Items,
    overhead: _Items,
) -> Demand:
    """The sum; cached, because pods of one template differ in nothing that matters here."""
    problems: list[str] = []
    running: _ResourceAmounts = {}
    for alternatives in containers:
        _add(running, _largest(alternatives, problems))
    sidecars: _ResourceAmounts = {}
    peak: _ResourceAmounts = {}
    for is_sidecar, alternatives in inits:
        own = _largest(alternatives, problems)
        if is_sidecar:
            _add(sidecars, own)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _add(running, sidecars)
    _raise(running, peak)
    _replace(running, _largest(level, problems), _largest((level_limits,), problems))
    _add(running, _largest((overhead,), problems))
    resources = sorted((name, min(count, MAX)) for name, count in running.items() if name != "pods")
    return Demand(tuple(resources), tuple(problems))


def _largest(alternatives: _Alternatives, problems: list[str]) -> _ResourceAmounts:
    amounts: _ResourceAmounts = {}
    for items in alternatives:
        for name, quantity in items:
            try:
                _raise(amounts, {name: amount(name, quantity)})
            except BadQuantity as error:
                problems.append(f"resources[{name}]: {error}")
    return amounts


def _replace(total: _ResourceAmounts, requests: _ResourceAmounts, limits: _ResourceAmounts) -> None:
    """Replace the sum by pod-level resources; limits count only without requests."""
    for name in {**limits, **requests}:
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = requests[name] if name in requests else total.get(name) or limits[name]


def _add(total: _ResourceAmounts, more: _ResourceAmounts) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(total: _ResourceAmounts, least: _ResourceAmounts) -> None:
    for name, count in least.items():
        if count > total.get(name, 0):
            total[name] = count
