"""Pods and nodes as gpushare sees them, for its tests."""

from collections.abc import Mapping

from kubeshare_py.dialects.dialect import ContainerAmounts, NodeCard, PlacedNode, PodAsk, read_by
from kubeshare_py.dialects.dialects import owned_part
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
PERCENT, TFLOPS = "aliyun.com/gpu-core.percentage", "aliyun.com/gpu-core.tflops"
PLACEMENT, WHOLE = "ack.gpushare.placement", "require-whole-device"
GIB, MIB = 2**30, 2**20


def container(index: int, amounts: Mapping[str, int], *, init: bool = False) -> ContainerAmounts:
    ref = ContainerRef(init, index)
    return ContainerAmounts(f"{ref}", ref, False, tuple(sorted(amounts.items())))


def asks(
    *containers: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    init: Mapping[str, int] | None = None,
    dialect: Gpushare | None = None,
) -> GpuRequest | InvalidRequest | None:
    """What a pod asks for whose containers ask for these amounts, as a scheduler reads it."""
    found = [container(index, amounts) for index, amounts in enumerate(containers)]
    if init is not None:
        found.insert(0, container(0, init, init=True))
    chosen = dialect or Gpushare()
    pod = PodAsk(labels or {}, {}, tuple(found))
    return read_by(chosen, owned_part(chosen, pod))


def request(
    *containers: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    dialect: Gpushare | None = None,
) -> GpuRequest:
    found = asks(*containers, labels=labels, dialect=dialect)
    assert isinstance(found, GpuRequest), found
    return found


def refusal(
    *containers: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    init: Mapping[str, int] | None = None,
    dialect: Gpushare | None = None,
) -> str:
    found = asks(*containers, labels=labels, init=init, dialect=dialect)
    assert isinstance(found, InvalidRequest), found
    return str(found)


def a_node(*cards_mib: int, decided_at_ns: int = 1_700_000_000_123_456_789) -> PlacedNode:
    """A node with cards `GPU-0`, `GPU-1`… of these sizes."""
    return PlacedNode(
        cards={
            GpuUuid(f"GPU-{index}"): NodeCard(index, mib * MIB, "T4")
            for index, mib in enumerate(cards_mib)
        },
        offered={},
        decided_at_ns=decided_at_ns,
    )


def an_allocation(*containers: tuple[int, Mapping[int, tuple[int, int]]]) -> Allocation:
    """Containers by their number, each with (milli, bytes) of cards by their index."""
    claims = tuple(
        ClaimCharge(
            container=ContainerRef(False, number),
            cards=tuple(
                CardCharge(GpuUuid(f"GPU-{index}"), milli, held)
                for index, (milli, held) in cards.items()
            ),
        )
        for number, cards in containers
    )
    return Allocation(
        token=DecisionToken("t"),
        dialect="gpushare",
        cards=summed(card for one in claims for card in one.cards),
        claims=claims,
    )
