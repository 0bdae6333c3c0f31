"""The collectors of a simulated cluster: their cards, and which of them answer."""

from collections.abc import Iterable, Iterator, Mapping

from kubeshare_py.domain.card_reading import CardReading, JudgedCard
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.embedded_cluster.nodes.cluster_file import SimulatedNode
from kubeshare_py.exporters.collector_metrics import READ, CollectorFigures, cards_text, page
from kubeshare_py.exporters.gpu_capacity import NAME, Sample, capacity_samples
from kubeshare_py.inventory.series import CARDS, FAULT, HEALTHY
from kubeshare_py.inventory.wiring_series import LINK, NUMA, RDMA
from kubeshare_py.topology.wiring import links_of

JOB = "kubeshare-collector"
#: The name of a node's nearest RDMA device.
RDMA_DEVICE = "mlx5_0"
#: The collector's usual port; only seen in the label `instance`.
PORT = 9004
#: The fault of a broken card.
REASON = "memory-errors"


class Collectors:
    """One collector per node with cards. All of them are scraped and answer at first."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._cards: Mapping[NodeName, tuple[Gpu, ...]] = {
            node.name: node.cards for node in nodes if node.cards
        }
        self._missing: set[GpuUuid] = set()
        self._broken: set[GpuUuid] = set()
        self._down: set[NodeName] = set()
        self._unscraped: set[NodeName] = set()

    def remove_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card fall off the bus: NVML no longer lists it. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._missing.add(uuid)
        return uuid

    def restore_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card that was removed be listed again. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._missing.discard(uuid)
        return uuid

    def break_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card be listed with a fault. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._broken.add(uuid)
        return uuid

    def mend_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card that was broken be healthy again. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._broken.discard(uuid)
        return uuid

    def take_down(self, node: NodeName) -> None:
        """Let a collector stop answering: its `up` is 0. Raises LookupError if unknown."""
        self._down.add(self._known(node))

    def stop_scraping(self, node: NodeName) -> None:
        """Let Prometheus forget a target: it has no `up`. Raises LookupError if unknown."""
        self._unscraped.add(self._known(node))

    def bring_up(self, node: NodeName) -> None:
        """Let a collector be scraped and answer. Raises LookupError if unknown."""
        self._down.discard(self._known(node))
        self._unscraped.discard(node)

    def listed(self, node: NodeName) -> tuple[Gpu, ...] | None:
        """The cards that the collector of `node` lists; None if it does not answer or exist."""
        if node not in self._cards or node in self._down:
            return None
        return tuple(card for card in self._cards[node] if card.uuid not in self._missing)

    def page(self, node: NodeName, now: float, accept: str = "") -> tuple[bytes, str] | None:
        """The answer to a scrape, and its content type; None as above."""
        listed = self.listed(node)
        if listed is None:
            return None
        figures = CollectorFigures(
            node=node,
            cards=tuple(self._judged(card) for card in listed),
            listed=listed,
            links=links_of(listed),
            errors={},
            unanswered={},
            readings={READ: 1},
        )
        return page(figures, cards_text(figures), now, accept)

    def series(self, now: float) -> Iterator[Sample]:
        """The series that schedulers read, as Prometheus has them after scraping at `now`."""
        for node in self._cards:
            if node in self._unscraped:
                continue
            target = {"job": JOB, "instance": f"{node}:{PORT}"}
            listed = self.listed(node)
            yield Sample({"__name__": "up", **target}, int(listed is not None))
            if listed is None:
                continue
            broken = [card for card in listed if card.uuid in self._broken]
            yield Sample({"__name__": CARDS, **target, "node": node}, len(listed))
            yield Sample({"__name__": HEALTHY, **target, "node": node}, len(listed) - len(broken))
            for sample in capacity_samples(node, listed, now):
                yield Sample({"__name__": NAME, **target, **sample.labels}, sample.value)
            for card in broken:
                wrong = {"node": node, "uuid": card.uuid, "fault": REASON}
                yield Sample({"__name__": FAULT, **target, **wrong}, 1)
            yield from _wiring_samples(node, listed, target)

    def _judged(self, card: Gpu) -> JudgedCard:
        reading = CardReading(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            memory_bytes=card.memory_bytes,
            numa_node=card.numa_node,
            parent=card.parent,
            rdma=() if card.rdma is None else ((RDMA_DEVICE, card.rdma),),
        )
        return JudgedCard(reading=reading, faults=(REASON,) if card.uuid in self._broken else ())

    def _known(self, node: NodeName) -> NodeName:
        if node not in self._cards:
            raise LookupError(f"node {node} has no collector")
        return node


def _wiring_samples(
    node: NodeName, cards: tuple[Gpu, ...], target: dict[str, str]
) -> Iterator[Sample]:
    """The wiring of the cards, in GB/s as collectors report it."""
    for link in links_of(cards):
        labels = {"uuid": link.uuid, "peer": link.peer, "type": link.kind}
        yield Sample({"__name__": LINK, **target, "node": node, **labels}, link.speed // 1000)
    for card in cards:
        if card.numa_node is not None:
            labels = {"node": node, "uuid": card.uuid}
            yield Sample({"__name__": NUMA, **target, **labels}, card.numa_node)
        if card.rdma is not None:
            near = {"device": RDMA_DEVICE, "type": card.rdma.value}
            labels = {"node": node, "uuid": card.uuid, **near}
            yield Sample({"__name__": RDMA, **target, **labels}, 1)
