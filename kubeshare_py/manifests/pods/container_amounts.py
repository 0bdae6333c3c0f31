"""What each container asks of the resources that dialects own."""

from collections.abc import Set as AbstractSet

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.domain.quantity import BadQuantity, amount
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.manifests.pods.effective_requests import asked_amounts, is_sidecar
from kubeshare_py.manifests.pods.pod_fields import Container, PodSpec


def container_amounts(spec: PodSpec, names: AbstractSet[str]) -> tuple[ContainerAmounts, ...]:
    """The amounts of these resources by container, init containers first.

    What is no quantity is left out here, because the pod's demand reports it.
    """
    return tuple(
        [
            _amounts(one, ContainerRef(True, at), names)
            for at, one in _numbered(spec.init_containers)
        ]
        + [_amounts(one, ContainerRef(False, at), names) for at, one in _numbered(spec.containers)]
    )


def _numbered(containers: tuple[Container, ...] | None) -> enumerate[Container]:
    return enumerate(containers or ())


def _amounts(container: Container, ref: ContainerRef, names: AbstractSet[str]) -> ContainerAmounts:
    found = []
    for name, quantity in asked_amounts(container.resources):
        if name not in names:
            continue
        try:
            found.append((name, amount(name, quantity)))
        except BadQuantity:
            continue
    return ContainerAmounts(container.name, ref, is_sidecar(container), tuple(sorted(found)))
