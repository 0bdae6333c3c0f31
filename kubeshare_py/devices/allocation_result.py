"""What an allocation says of a claim: devices, the nodes that it binds to, and parameters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubeshare_py.devices.allocator import Chosen
from kubeshare_py.domain.devices.resource_claim import (
    AllocatedDevice,
    ClaimAllocation,
    DeviceClass,
    DeviceConfiguration,
    DeviceRequest,
    ResourceClaim,
)
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm


def allocation_of(
    claim: ResourceClaim, chosen: Chosen, classes: Mapping[str, DeviceClass]
) -> ClaimAllocation:
    """The allocation of a claim with these devices."""
    return ClaimAllocation(
        devices=tuple(
            AllocatedDevice(request.name, one.key, tolerations=request.tolerations)
            for request, one in chosen
        ),
        terms=_terms(chosen),
        configurations=(*_of_classes(claim, chosen, classes), *_of_claim(claim, chosen)),
    )


def _terms(chosen: Chosen) -> tuple[NodeTerm, ...] | None:
    """The nodes from which all devices may be used; None for all nodes."""
    labels: list[Requirement] = []
    fields: list[Requirement] = []
    for _, one in chosen:
        nodes = one.slice.nodes_of(one.device)
        if nodes is None:
            continue
        if nodes.name is not None:
            return (NodeTerm(fields=(Requirement("metadata.name", "In", (nodes.name,)),)),)
        for term in nodes.terms or ():
            labels += term.labels
            fields += term.fields
    if not labels and not fields:
        return None
    return (NodeTerm(tuple(dict.fromkeys(labels)), tuple(dict.fromkeys(fields))),)


def _of_classes(
    claim: ResourceClaim, chosen: Chosen, classes: Mapping[str, DeviceClass]
) -> Iterator[DeviceConfiguration]:
    """The parameters of each class once, for all requests of it."""
    requests: dict[str, list[str]] = {}
    for one in _selected(claim, chosen):
        requests.setdefault(one.device_class, []).append(one.name)
    for name, names in requests.items():
        for configuration in classes[name].configurations:
            yield DeviceConfiguration(configuration.source, tuple(names), configuration.content)


def _of_claim(claim: ResourceClaim, chosen: Chosen) -> Iterator[DeviceConfiguration]:
    names = {name for one in _selected(claim, chosen) for name in (one.name, one.top_name)}
    for one in claim.configurations:
        if not one.requests or _meets(one.requests, names):
            yield one


def _selected(claim: ResourceClaim, chosen: Chosen) -> Sequence[DeviceRequest]:
    """The alternative of each request that was chosen."""
    taken = {request.name for request, _ in chosen}
    return [one for alternatives in claim.requests for one in alternatives if one.name in taken]


def _meets(names: Iterable[str], others: set[str]) -> bool:
    return any(name in others for name in names)
