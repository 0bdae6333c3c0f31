"""Nodes with boards, whose cards tests know by index."""

from collections.abc import Iterable

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making.driver import Cards, Driver
from tests.making.values import GIB, MODEL


def boarded(boards: dict[str, Iterable[Gpu]], document: object = None, cpu: int = 64_000) -> Driver:
    """A driver with nodes by name, each with a board."""
    driver = Driver(dict.fromkeys(boards, 0), document, cpu=cpu)
    for node, board in boards.items():
        driver.tell(InventoryRead(((NodeName(node), placed_on(node, board)),)))
    return driver


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


def started(driver: Driver, *pods: Pod) -> list[Cards]:
    """The pods are seen and bound; what each of them got, in this order."""
    binds = {bind.uid: bind for bind in driver.show(*pods)}
    driver.bound([*binds.values()], *pods)
    return [cards_of(binds[pod.uid]) for pod in pods]


def cards_of(bind: Bind) -> Cards:
    """Node and index of each card."""
    uuids = [card.uuid for card in bind.allocation.cards]
    return {(str(bind.node), int(uuid.rpartition("-")[2])) for uuid in uuids}


def on(node: str, *indices: int) -> Cards:
    """These cards of one node."""
    return {(node, index) for index in indices}
