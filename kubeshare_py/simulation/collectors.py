"""The collectors of a simulated cluster: which cards they list, and which of them answer."""

from collections.abc import Iterable, Iterator, Mapping

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.gpu_capacity import NAME, Sample, capacity_samples
from kubeshare_py.simulation.cluster_file import SimulatedNode

JOB = "kubeshare-collector"
#: The collector's usual port; only seen in the label `instance`.
PORT = 9004


class Collectors:
    """One collector per node with cards. All of them are scraped and answer at first."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._cards: Mapping[NodeName, tuple[Gpu, ...]] = {
            node.name: node.cards for node in nodes if node.cards
        }
        self._missing: set[GpuUuid] = set()
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

    def scrape(self, node: NodeName, now: float) -> tuple[Sample, ...] | None:
        """What the collector of `node` lists; None when it does not answer or is not there."""
        if node not in self._cards or node in self._down:
            return None
        present = (card for card in self._cards[node] if card.uuid not in self._missing)
        return capacity_samples(node, present, now)

    def series(self, now: float) -> Iterator[Sample]:
        """All series as Prometheus has them after scraping every collector at `now`."""
        for node in self._cards:
            if node in self._unscraped:
                continue
            target = {"job": JOB, "instance": f"{node}:{PORT}"}
            scraped = self.scrape(node, now)
            yield Sample({"__name__": "up", **target}, int(scraped is not None))
            for sample in scraped or ():
                yield Sample({"__name__": NAME, **target, **sample.labels}, sample.value)

    def _known(self, node: NodeName) -> NodeName:
        if node not in self._cards:
            raise LookupError(f"node {node} has no collector")
        return node
