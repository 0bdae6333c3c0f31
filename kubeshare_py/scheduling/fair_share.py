"""Shapes that nobody asked about before wait their turn, namespace by namespace.

To ask about a new shape costs as much as to place many pods of known ones. What one namespace may
bring in between two turns is bounded; the rest waits in a room of its own, and each turn takes in
some of every room. A namespace that is alone is held up by nothing.
"""

from heapq import heappop, heappush

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.pod_queue import SortKey

#: What new shapes may cost, in rows (see `framework.asking_cost`): those that a turn takes in, and
#: those that one namespace may bring between two turns. At least one shape is always taken in.
A_TURN = 12_500
A_NAMESPACE = 5_000


class FairShare:
    """Who waits in which room, and what each namespace brought in since the last turn."""

    def __init__(self) -> None:
        self._brought: dict[str, int] = {}
        self._rooms: dict[str, list[tuple[SortKey, PodUid, int]]] = {}
        self._last = ""

    @property
    def more(self) -> bool:
        """Whether anything waits in a room."""
        return bool(self._rooms)

    def admits(self, namespace: str, cost: int) -> bool:
        """Whether a new shape may join the queue at once."""
        if namespace in self._rooms:
            return False
        brought = self._brought.get(namespace, 0)
        if brought and brought + cost > A_NAMESPACE:
            return False
        self._brought[namespace] = brought + cost
        return True

    def put(self, namespace: str, key: SortKey, uid: PodUid, cost: int) -> None:
        """The pod waits in the room of its namespace, in queue order."""
        heappush(self._rooms.setdefault(namespace, []), (key, uid, cost))

    def portion(self) -> list[PodUid]:
        """Begin a turn: take some pods out of every room, another room first each time."""
        self._brought.clear()
        if not self._rooms:
            return []
        names = sorted(self._rooms, key=lambda name: (name <= self._last, name))
        share, taken, total = A_TURN // len(names), [], 0
        for name in names:
            room, spent = self._rooms[name], 0
            while room and (not spent or spent + room[0][2] <= share):
                _, uid, cost = heappop(room)
                taken.append(uid)
                spent += cost
            if not room:
                del self._rooms[name]
            self._brought[name], self._last = spent, name
            total += spent
            if total >= A_TURN:
                break
        return taken
