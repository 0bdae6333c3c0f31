"""Cards that fail, come back or vanish, compared as their nodes list them.

What is so before the inventory is known is no change: a scheduler that starts reports nothing, and
neither does a card that was never listed before, however it is. A node whose collector is silent
keeps its cards. Verdicts on cards that several nodes list are no change of the card either, so that
lists are compared, not what the ledger counts.
"""

from collections import deque
from collections.abc import Callable, Iterator

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import CardChange, ReportCardChange
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid

#: The most reports per iteration, about 10 µs each: a file of cards may be emptied by mistake.
REPORTS_PER_ITERATION = 100
#: The most vanished cards that are remembered, so that their return is one.
MAX_VANISHED = 10_000


class CardChanges:
    """Changes that are to be reported, and the cards that vanished."""

    def __init__(self, ledger: Ledger, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._key_of = key_of
        self._queue: deque[tuple[NodeName, Gpu, CardChange]] = deque()
        #: By node and uuid, the earliest first.
        self._vanished: dict[tuple[NodeName, GpuUuid], None] = {}

    @property
    def more(self) -> bool:
        """Whether there is something to report now."""
        return bool(self._queue)

    def lists(self, node: NodeName, gpus: tuple[Gpu, ...]) -> None:
        """Compare what a node lists with what it listed; the ledger is changed after this call."""
        before = {gpu.uuid: gpu for gpu in self._ledger.claims.as_listed.get(node, ())}
        for gpu in gpus:
            known = before.pop(gpu.uuid, None)
            if known is not None and known.healthy != gpu.healthy:
                change = CardChange.RECOVERED if gpu.healthy else CardChange.FAILED
                self._queue.append((node, gpu, change))
            elif known is None and (node, gpu.uuid) in self._vanished:
                del self._vanished[node, gpu.uuid]
                change = CardChange.RETURNED if gpu.healthy else CardChange.FAILED
                self._queue.append((node, gpu, change))
        if node not in self._ledger.columns.row_of:
            return  # its cards leave with it
        for gpu in before.values():
            self._queue.append((node, gpu, CardChange.VANISHED))
            self._vanished[node, gpu.uuid] = None
            if len(self._vanished) > MAX_VANISHED:
                del self._vanished[next(iter(self._vanished))]

    def drop(self) -> None:
        """Forget what is to be reported: another scheduler decides, and reports."""
        self._queue.clear()

    def portion(self) -> Iterator[ReportCardChange]:
        """The next reports, with the pods that hold the cards now."""
        for _ in range(min(len(self._queue), REPORTS_PER_ITERATION)):
            node, gpu, change = self._queue.popleft()
            holders = self._ledger.allocations_of(node, gpu.uuid)
            pods = tuple(sorted((self._key_of(uid), uid) for uid in holders))
            yield ReportCardChange(node, gpu.uuid, change, _named(gpu), pods)


def _named(gpu: Gpu) -> str:
    """A card in a sentence: `GPU 3 (Tesla-T4, GPU-…)`; instances of one card share its index."""
    what = f"{gpu.model}, {gpu.uuid}" if gpu.model else gpu.uuid
    return (
        f"GPU instance {gpu.uuid} ({gpu.model})" if gpu.is_instance else f"GPU {gpu.index} ({what})"
    )
