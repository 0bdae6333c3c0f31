"""A pod's effective requests of cpu, memory and other countable resources.

The rules are those of the scheduler and kubelet (PodRequests in k8s.io/component-helpers): init
containers run one after the other, before the others, and sidecars (init containers with
restartPolicy Always) keep running; `spec.resources` replaces the sum for cpu, memory and huge
pages; a bound pod in the middle of a resize takes the most of what it wants, was granted and has.
"""

from kubeshare_py.manifests.pods.pod_fields import (
    Container,
    ContainerResources,
    ContainerStatus,
    PodSpec,
    PodStatus,
    ResourceList,
)
from kubeshare_py.manifests.pods.summed_requests import (
    Alternatives,
    Demand,
    QuantityItems,
    summed,
)


def demand(spec: PodSpec, status: PodStatus | None) -> Demand:
    """The pod's demand. `status` is a bound pod's; None if no kubelet has seen the pod yet."""
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
