"""A pod's effective requests of cpu, memory and other countable resources, and each container's."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.domain.pod import UNREQUESTED
from kubeshare_py.domain.quantity import MAX, BadQuantity, Quantity, amount
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.manifests.pods.pod_fields import (
    Container,
    ContainerResources,
    ContainerStatus,
    PodSpec,
    PodStatus,
    ResourceList,
)

# The sum of what a pod's containers need at once, and what scores count besides.
#
# Scores count some cpu and memory for each container that asks for none, so that a node with many
# such pods is not taken for an empty one (CalculateResource in pkg/scheduler/framework/types.go of
# github.com/kubernetes/kubernetes).


QuantityItems = tuple[tuple[str, Quantity], ...]
#: Lists of amounts; for each resource the largest one counts.
Alternatives = tuple[QuantityItems, ...]
_ResourceAmounts = dict[str, int]

#: What scores count for a container without a request: DefaultMilliCPURequest and
#: DefaultMemoryRequest of pkg/scheduler/util/pod_resources.go.
_IF_MISSING: Mapping[str, int] = {"cpu": 100, "memory": 200 << 20}


_AmountPairs = tuple[tuple[str, int], ...]
#: What a pod asks for: amounts without zeros and without `pods`, sorted by name; what scores count
#: besides, under the names of `UNREQUESTED`; and sentences about what is no quantity.
EffectiveRequests = tuple[_AmountPairs, _AmountPairs, tuple[str, ...]]
NOTHING_ASKED: EffectiveRequests = ((), (), ())


@remembered(8192)
def summed(
    containers: tuple[Alternatives, ...],
    inits: tuple[tuple[bool, Alternatives], ...],
    level: Alternatives,
    level_limits: QuantityItems,
    overhead: QuantityItems,
) -> EffectiveRequests:
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
        return tuple(resources), (), tuple(problems)
    scored = total(missing, [])
    unrequested = [
        (UNREQUESTED[name], scored[name] - amounts.get(name, 0))
        for name in missing
        if scored.get(name, 0) > amounts.get(name, 0)
    ]
    return tuple(resources), tuple(unrequested), tuple(problems)


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


# A pod's effective requests of cpu, memory and other countable resources.
#
# The rules are those of the scheduler and kubelet (PodRequests in k8s.io/component-helpers): init
# containers run one after the other, before the others, and sidecars (init containers with
# restartPolicy Always) keep running; `spec.resources` replaces the sum for cpu, memory and huge
# pages; a bound pod in the middle of a resize takes the most of what it wants, was granted and has.


def effective_requests(spec: PodSpec, status: PodStatus | None) -> EffectiveRequests:
    """What the pod asks for. `status` is a bound pod's; None if no kubelet has seen the pod yet."""
    containers, inits, level = spec.containers or (), spec.init_containers or (), spec.resources
    statuses = {one.name: one for one in _statuses(status)} if status else {}
    if status is None or _holds_asked_amounts(status, statuses, containers + inits):
        return summed(
            tuple([(asked_amounts(one.resources),) for one in containers]),
            tuple([(is_sidecar(one), (asked_amounts(one.resources),)) for one in inits]),
            (_items(level.requests),) if level else (),
            _items(level.limits) if level else (),
            _items(spec.overhead),
        )
    refused = _resize_refused(status)
    of_pod = _items(level.requests) if level else ()
    if status.resources is not None:
        held = (_items(status.allocated_resources), _actual(status.resources))
        of_level = _wanted_or_held(of_pod, held, refused)
    else:
        of_level = (of_pod,)
    return summed(
        tuple([_alternatives(one, statuses.get(one.name), refused) for one in containers]),
        tuple(
            [
                (True, _alternatives(one, statuses.get(one.name), refused))
                if is_sidecar(one)
                else (False, (asked_amounts(one.resources),))  # it has run before a resize
                for one in inits
            ]
        ),
        of_level if level else (),
        _items(level.limits) if level else (),
        _items(spec.overhead),
    )


def _items(resources: ResourceList | None) -> QuantityItems:
    return tuple(resources.items()) if resources else ()


def asked_amounts(resources: ContainerResources | None) -> QuantityItems:
    """A container's requests; a limit without a request counts as one."""
    if resources is None:
        return ()
    if resources.limits and resources.requests:
        return tuple({**resources.limits, **resources.requests}.items())
    return _items(resources.requests or resources.limits)


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running."""
    return container.restart_policy == "Always"


def _holds_asked_amounts(
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


def _actual(resources: ContainerResources | None) -> QuantityItems:
    return _items(resources.requests) if resources else ()


def _alternatives(
    container: Container, status: ContainerStatus | None, refused: bool
) -> Alternatives:
    wanted = asked_amounts(container.resources)
    if status is None or status.resources is None:
        return (wanted,)
    held = (_items(status.allocated_resources), _actual(status.resources))
    return _wanted_or_held(wanted, held, refused)


def _wanted_or_held(wanted: QuantityItems, held: Alternatives, refused: bool) -> Alternatives:
    return held if refused else (wanted, *held)


# What each container asks of the resources that dialects own.


class AskingContainer(Protocol):
    """The fields of a container that its amounts depend on."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def resources(self) -> ContainerResources | None:
        """Its requests and limits."""
        ...

    @property
    def restart_policy(self) -> str | None:
        """Always for a sidecar."""
        ...


def container_amounts(
    init_containers: Sequence[AskingContainer] | None,
    containers: Sequence[AskingContainer] | None,
    names: AbstractSet[str],
) -> tuple[ContainerAmounts, ...]:
    """The amounts of these resources by container, init containers first.

    What is no quantity is left out here, because `effective_requests` reports it.
    """
    return tuple(
        [
            _amounts(one, ContainerRef(init, at), names)
            for init, found in ((True, init_containers), (False, containers))
            for at, one in enumerate(found or ())
        ]
    )


def _amounts(
    container: AskingContainer, ref: ContainerRef, names: AbstractSet[str]
) -> ContainerAmounts:
    found = []
    for name, quantity in asked_amounts(container.resources):
        if name not in names:
            continue
        try:
            found.append((name, amount(name, quantity)))
        except BadQuantity:
            continue
    sidecar = ref.init and container.restart_policy == "Always"
    return ContainerAmounts(container.name, ref, sidecar, tuple(sorted(found)))
