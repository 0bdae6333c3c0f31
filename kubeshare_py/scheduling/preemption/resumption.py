"""Plans of an earlier scheduler process, which are made anew before other pods are tried.

Such a plan is known from waiting pods, which show the node that they are nominated for. It is made
anew for that node, with the pods that are leaving there. So what was freed does not go to others,
and only pods that still have to leave are evicted.
"""

from collections.abc import Collection, Iterable, Mapping

from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.reservations import Nominee, needed

#: The most single pods per iteration; a gang takes an iteration of its own.
PODS_PER_ITERATION = 8


class Resumption:
    """Nominees still to be looked at, from the first iteration of this process on."""

    def __init__(self, records: Mapping[PodUid, Record], gangs: Gangs) -> None:
        self._records = records
        self._gangs = gangs
        self._left: dict[PodUid, None] | None = None

    def is_due(self, *, cards_known: bool) -> bool:
        """Whether nominees are left; those that claim cards count once cards are known."""
        return any(cards_known or not self._wants_cards(uid) for uid in self._left or ())

    def begin(self, nominated: Iterable[PodUid]) -> None:
        """At the first iteration: these pods are nominated."""
        if self._left is None:
            self._left = dict.fromkeys(sorted(nominated, key=self._rank))

    def portion(self, *, cards_known: bool) -> list[tuple[Nominee, Collection[NodeName]]]:
        """The next nominees in queue order, each with the nodes that it is nominated for."""
        found: list[tuple[Nominee, Collection[NodeName]]] = []
        for uid in list(self._left or ()):
            if len(found) >= PODS_PER_ITERATION or (found and isinstance(found[-1][0], Gang)):
                break
            if self._left is None or (not cards_known and self._wants_cards(uid)):
                continue
            self._left.pop(uid, None)
            record = self._records.get(uid)
            if record is None or record.state is not PodState.WAITING:
                continue
            gang = self._gangs.of(uid)
            nominee: Nominee = gang if gang is not None and gang.needs_quorum else uid
            members = needed(nominee, self._records)
            if isinstance(nominee, Gang) and len(members) < nominee.need:
                continue
            nodes = {one.pod.nominated_node for one in members} - {None}
            for member in members:
                self._left.pop(member.pod.uid, None)
            found.append((nominee, {node for node in nodes if node is not None}))
        return found

    # --- inside --------------------------------------------------------------------------------

    def _wants_cards(self, uid: PodUid) -> bool:
        record = self._records.get(uid)
        return record is not None and bool(record.pod.shape.claims)

    def _rank(self, uid: PodUid) -> tuple[int, int]:
        record = self._records[uid]
        return -record.pod.priority, record.arrived
