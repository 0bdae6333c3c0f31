"""A dialect for tests: containers ask for halves of a card by `example.com/half: 1`."""

from collections.abc import Mapping

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
)
from kubeshare_py.dialects.dialects import Dialects, DialectTable
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import (
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

HALF, GPU, CARDS, SEEN = "example.com/half", "nvidia.com/gpu", "example.com/cards", "example.com/ok"
REGISTER = "example.com/register"
#: An annotation that is a label too, and the beginning of annotations of containers.
STATE, OF = "example.com/state", "example.com/of-"


class Halves(Dialect):
    """Of `nvidia.com/gpu` it owns what is on nodes with its register annotation."""

    name = "halves"
    result_keys = ResultKeys(
        scheduler=frozenset({CARDS, STATE}),
        device_plugin={SEEN: "kube-system/halves-plugin"},
        prefixes=(OF,),
        labels=frozenset({STATE}),
    )

    def __init__(self, resource: str = HALF) -> None:
        self.owns = OwnedKeys(
            resources=frozenset({resource}),
            contested=frozenset({GPU}),
            prefixes=("example.com/",),
        )
        self.container_rules = (ContainerRule(resource, CardVisibility.SHARE),)

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        claims = []
        for one in pod.containers:
            for name, count in one.amounts:
                if count > 1:
                    rule = "must be 1, half a card"
                    return InvalidRequest(field=f"resources[{name}]", value=str(count), rule=rule)
                claim = GpuClaim(milli=500)
                claims.append(ContainerClaim(claim=claim, container=one.container, limit_milli=500))
        return GpuRequest(claims=tuple(claims), dialect=self.name) if claims else None

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        return {CARDS: " ".join(card.uuid for card in allocation.cards)}

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """Of pods that another scheduler bound: `GPU-1=500`, a card and thousandths of it."""
        text = pod.annotations.get(CARDS)
        if not text:
            return None
        uuid, _, milli = text.partition("=")
        if not milli.isdecimal():
            return f"{CARDS}: {text!r} has no share"
        card = CardCharge(GpuUuid(uuid), int(milli), 1)
        return Allocation(token=DecisionToken(""), cards=(card,))

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        return REGISTER in node.annotations


HALVES = Halves()
BOTH = DialectTable((SHAREDGPU, HALVES))
#: The first profile has both, the other `sharedgpu` alone.
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, HALVES), "other": (SHAREDGPU,)})


def a_container(index: int = 0, *, init: bool = False, **amounts: int) -> ContainerAmounts:
    """A container with some halves (`half`) or GPUs (`gpu`)."""
    names = {"half": HALF, "gpu": GPU}
    asked = tuple(sorted((names[name], count) for name, count in amounts.items()))
    return ContainerAmounts(f"c{index}", ContainerRef(init, index), False, asked)


def an_ask(
    *containers: ContainerAmounts,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> PodAsk:
    return PodAsk(labels or {}, annotations or {}, containers)
