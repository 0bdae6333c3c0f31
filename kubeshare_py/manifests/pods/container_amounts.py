"""What each container asks of the resources that dialects own."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.domain.quantity import BadQuantity, amount
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.manifests.pods.effective_requests import asked_amounts
from kubeshare_py.manifests.pods.pod_fields import ContainerResources


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

    What is no quantity is left out here, because the pod's demand reports it.
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
