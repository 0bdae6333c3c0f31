from kubeshare_py.dialects.api import (
    Allocation,
    CardVisibility,
    ContainerClaim,
    ContainerRule,
    Dialect,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
)

CARDS = "example.com/cards"


class Halves(Dialect):
    """Containers ask for half a GPU each: `resources.limits: {example.com/half: 1}`."""

    name = "halves"
    result_keys = ResultKeys(scheduler=frozenset({CARDS}))

    def __init__(self, resource: str = "example.com/half") -> None:
        self.owns = OwnedKeys(resources=frozenset({resource}))
        self.container_rules = (ContainerRule(resource, CardVisibility.SHARE),)

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        claims = []
        for container in pod.containers:
            for resource, count in container.amounts:
                if count != 1:
                    rule = "must be 1, half a GPU"
                    return InvalidRequest(field=resource, value=str(count), rule=rule)
                half = GpuClaim(milli=500)
                claims.append(
                    ContainerClaim(claim=half, container=container.container, limit_milli=500)
                )
        return GpuRequest(claims=tuple(claims), dialect=self.name) if claims else None

    def results(self, allocation: Allocation, node: PlacedNode) -> dict[str, str]:
        return {CARDS: " ".join(str(node.cards[card.uuid].index) for card in allocation.cards)}
