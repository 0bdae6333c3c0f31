"""The pods that wait for one lock of one node, first come, first served."""

import math
from dataclasses import dataclass, field

from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import backoff_s

#: A lock that has not changed hands for so long (s) has a lost pod: it is a little more than the
#: time after which the inventory closes the node's cards, so that the others do not come back.
LOST_S = 11.0
#: After another client took the lock in between, it is asked for again after so long (s), doubled
#: each time, up to a limit; mostly the watch shows earlier that it is free.
STALE_S, MOST_STALE_S = 0.1, 2.0
#: For so long (s) a lock that was taken counts as taken though the watch does not show it.
UNSEEN_S = 2.0
_MOST_DOUBLED = 10


@dataclass(slots=True)
class Turn:
    """A pod that waits for its turn, or has it and is not bound yet."""

    record: Record
    token: DecisionToken


@dataclass(slots=True, eq=False)
class NodeLine:
    """A line. `text` is the lock's annotation as it was last seen."""

    node: NodeName
    key: str
    #: When (s) the lock last changed hands.
    moved_at: float
    waiting: dict[PodUid, Turn] = field(default_factory=dict)
    #: The pod whose write is not answered.
    writing: tuple[PodUid, DecisionToken] | None = None
    #: Until when (s) the lock is taken although the node does not show it.
    unseen_until: float = -math.inf
    #: When (s) to ask for it again, and how often it was asked for in vain.
    again_at: float = -math.inf
    tries: int = 0
    text: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing needs to be remembered of it."""
        return not self.waiting and self.writing is None and self.unseen_until == -math.inf

    def shows(self, text: str, now: float) -> None:
        """The node shows the lock with this text."""
        if text != self.text:
            self.text, self.moved_at = text, now
            self.again_at = -math.inf
        if self.unseen_until <= now:
            self.unseen_until = -math.inf

    def may_ask(self, now: float) -> bool:
        """Whether the free lock may be asked for."""
        return self.writing is None and now >= self.again_at and now >= self.unseen_until

    def taken(self, now: float, *, is_seen: bool) -> None:
        """Our write took the lock; `is_seen`: the watch was faster than the answer."""
        self.tries, self.moved_at = 0, now
        self.unseen_until = -math.inf if is_seen else now + UNSEEN_S

    def asked_in_vain(self, now: float, *, is_stale: bool, pause_s: float = 0.0) -> None:
        """The write did not take the lock, as far as is known; `is_stale`: another client did."""
        self.tries += 1
        if is_stale:
            pause_s = min(STALE_S * 2 ** min(self.tries - 1, _MOST_DOUBLED), MOST_STALE_S)
        else:
            pause_s = max(backoff_s(self.tries), pause_s)
        self.again_at = now + pause_s

    def is_lost(self, now: float) -> bool:
        """Whether the lock has not changed hands for too long."""
        return now >= self.moved_at + LOST_S

    def next_at(self, now: float) -> float:
        """When (s), after `now`, time alone changes something."""
        times = [self.unseen_until]
        if self.waiting:
            times.append(self.again_at)
        if len(self.waiting) > 1:
            times.append(self.moved_at + LOST_S)
        return min((at for at in times if at > now), default=math.inf)
