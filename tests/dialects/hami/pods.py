"""Pods and nodes as HAMi sees them, for its tests."""

from collections.abc import Mapping
from typing import Any

from kubeshare_py.dialects.dialect import ContainerAmounts, NodeCard, PlacedNode, PodAsk, read_by
from kubeshare_py.dialects.dialects import owned_part
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.request import ContainerRef, GpuClaim, GpuRequest, InvalidRequest

GPU, MEM, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
CORES, PRIORITY = "nvidia.com/gpucores", "nvidia.com/priority"
MIB = 2**20
HAMI, SEED = Hami(), Hami(profile="4paradigm")


def containers(
    *apps: Mapping[str, int], inits: tuple[Mapping[str, int], ...] = (), sidecars: int = 0
) -> tuple[ContainerAmounts, ...]:
    """Containers that ask for these amounts; the first of the init containers are sidecars."""
    return tuple(
        ContainerAmounts(f"{ref}", ref, init and at < sidecars, tuple(sorted(amounts.items())))
        for init, each in ((True, inits), (False, apps))
        for at, amounts in enumerate(each)
        for ref in [ContainerRef(init, at)]
    )


def asks(
    *apps: Mapping[str, int],
    annotations: Mapping[str, str] | None = None,
    dialect: Hami = HAMI,
    **more: Any,
) -> GpuRequest | InvalidRequest | None:
    """What a pod asks for, as a scheduler reads it."""
    pod = PodAsk({}, annotations or {}, containers(*apps, **more))
    return read_by(dialect, owned_part(dialect, pod))


def request(*apps: Mapping[str, int], **more: Any) -> GpuRequest:
    found = asks(*apps, **more)
    assert isinstance(found, GpuRequest), found
    return found


def claim(amounts: Mapping[str, int], **more: Any) -> GpuClaim:
    """The claim of a pod with one container."""
    return request(amounts, **more).claims[0].claim


def refusal(*apps: Mapping[str, int], **more: Any) -> str:
    found = asks(*apps, **more)
    assert isinstance(found, InvalidRequest), found
    return str(found)


def a_node(
    *cards_mib: int,
    notes: tuple[tuple[str, str], ...] = (),
    at_ns: int = 1_700_000_000_123_456_789,
    served: str = "",
) -> PlacedNode:
    """A node with cards `GPU-0`, `GPU-1`… of these sizes; `served` is what its agent serves."""
    cards = {
        GpuUuid(f"GPU-{index}"): NodeCard(index, mib * MIB, "NVIDIA-A100")
        for index, mib in enumerate(cards_mib)
    }
    return PlacedNode(
        cards=cards,
        offered={},
        decided_at_ns=at_ns,
        notes=notes,
        name="n1",
        served=frozenset({served} - {""}),
    )
