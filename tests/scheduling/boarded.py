"""A machine on nodes with boards, whose cards tests know by index."""

from collections.abc import Iterable
from dataclasses import replace

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import InventoryRead, PodGone, PodSeen
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from tests.builders import GIB, MODEL, a_claim, a_pod, a_shape
from tests.scheduling.gang_driver import GangDriver

Cards = set[tuple[str, int]]


def placed_on(node: str, board: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """A node's cards; the order of their uuids is not that of their indices."""
    return tuple(
        replace(
            card,
            uuid=GpuUuid(f"{node}-{(card.index * 5 + 3) % 8}-{card.index}"),
            model=MODEL,
            memory_bytes=40 * GIB,
        )
        for card in board
    )


class Boarded(GangDriver):
    """Nodes by name, each with a board."""

    def __init__(
        self, boards: dict[str, Iterable[Gpu]], document: object = None, cpu: int = 64_000
    ) -> None:
        super().__init__(dict.fromkeys(boards, 0), document, cpu=cpu)
        self.cards = {node: placed_on(node, board) for node, board in boards.items()}
        for node, cards in self.cards.items():
            self.tell(InventoryRead(((NodeName(node), cards),)))

    def use(self, node: str, *indices: int, milli: int = 1000, exclusive: bool = False) -> None:
        """Others have so much of these cards, a pod each."""
        for index in indices:
            (card,) = (one for one in self.cards[node] if one.index == index)
            memory = 40 * GIB * milli // 1000
            charge = CardCharge(card.uuid, milli, memory, exclusive=exclusive)
            name = f"other-{node}-{index}-{milli}"
            allocation = Allocation(token=DecisionToken(name), cards=(charge,))
            shape = a_shape(a_claim(milli), cpu=0)
            pod = a_pod(name, shape, node_name=NodeName(node), allocation=allocation)
            self.tell(PodSeen(pod))

    def leave(self, node: str, index: int, milli: int = 1000) -> None:
        """One of those others is gone."""
        self.tell(PodGone(PodUid(f"uid-other-{node}-{index}-{milli}")))

    def start(self, *pods: Pod) -> list[Cards]:
        """The pods are seen and bound; what each of them got, in this order."""
        binds = {bind.uid: bind for bind in self.show(*pods)}
        self.bound([*binds.values()], *pods)
        return [cards_of(binds[pod.uid]) for pod in pods]


def cards_of(bind: Bind) -> Cards:
    """Node and index of each card."""
    uuids = [card.uuid for card in bind.allocation.cards]
    return {(str(bind.node), int(uuid.rpartition("-")[2])) for uuid in uuids}


def on(node: str, *indices: int) -> Cards:
    """These cards of one node."""
    return {(node, index) for index in indices}
