"""Which faults there are, and which of them a request meets: settled by a seed, not by the hour."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """One way in which a request or a watch goes wrong."""

    DELAYED = "delayed before forwarding"
    DROPPED = "dropped before forwarding"
    LOST = "forwarded, answer lost"
    HALF = "forwarded, answer cut in the middle"
    SLOW = "forwarded, answer slow"
    HANGS = "never answered"
    FORBIDDEN = "403"
    CONFLICT = "409"
    THROTTLED = "429 with Retry-After"
    BROKEN = "500"
    UNAVAILABLE = "503"
    TIMED_OUT = "forwarded, then 504"
    BROKEN_AFTER = "forwarded, then 500"
    CUT = "watch cut between lines"
    MID_LINE = "watch cut in the middle of a line"
    SILENT = "watch half-open"
    TRICKLE = "watch in small slow pieces"
    GONE = "watch told 410"


_INSTEAD = {
    Kind.FORBIDDEN: 403, Kind.CONFLICT: 409, Kind.THROTTLED: 429, Kind.BROKEN: 500,
    Kind.UNAVAILABLE: 503, Kind.TIMED_OUT: 504, Kind.BROKEN_AFTER: 500,
}  # fmt: skip
#: Kinds for which the request is sent on.
FORWARDED = frozenset(
    {Kind.DELAYED, Kind.LOST, Kind.HALF, Kind.SLOW, Kind.TIMED_OUT, Kind.BROKEN_AFTER}
)
OF_REQUESTS = (
    [Kind.DELAYED, Kind.DROPPED, Kind.LOST, Kind.HALF, Kind.SLOW] * 3
    + [Kind.FORBIDDEN, Kind.CONFLICT, Kind.THROTTLED, Kind.BROKEN, Kind.UNAVAILABLE] * 2
    + [Kind.TIMED_OUT, Kind.BROKEN_AFTER] * 2
    + [Kind.HANGS]
)
#: Done, and whoever asked does not learn it.
ANSWERS_LOST = (Kind.LOST, Kind.HALF, Kind.TIMED_OUT, Kind.BROKEN_AFTER)
_OF_WATCHES = (
    [Kind.CUT, Kind.MID_LINE] * 3
    + [Kind.TRICKLE, Kind.GONE, Kind.SILENT]
    + [Kind.THROTTLED, Kind.BROKEN, Kind.UNAVAILABLE, Kind.DROPPED]
)


def status_of(kind: Kind) -> int:
    """The code that is answered instead of the true one; 0 for none."""
    return _INSTEAD.get(kind, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind and how strong it is: `amount` is 0…1, of whatever the kind is about."""

    kind: Kind
    amount: float


class FaultPlan:
    """What happens to the n-th request of a method and path: the same whenever it comes.

    `requests` and `watches` are the shares (0…1) that something happens to: of requests whose path
    the pattern `where` finds, something of `kinds`.
    """

    def __init__(
        self,
        seed: int,
        *,
        requests: float = 0.85,
        watches: float = 0.7,
        where: str = "",
        kinds: Sequence[Kind] = OF_REQUESTS,
    ) -> None:
        self._seed = seed
        self._shares = {False: requests, True: watches}
        self._where = re.compile(where)
        self._kinds = kinds
        self._seen: Counter[str] = Counter()

    def next(self, method: str, path: str, *, is_watch: bool) -> Fault | None:
        """The fault of the next such request, if it has one."""
        if not is_watch and not self._where.search(path):
            return None
        what = f"{'WATCH' if is_watch else method} {path}"
        self._seen[what] += 1
        rng = random.Random(f"{self._seed} {what} {self._seen[what]}")
        if rng.random() >= self._shares[is_watch]:
            return None
        kind = rng.choice(_OF_WATCHES if is_watch else self._kinds)
        return Fault(kind=kind, amount=rng.random())
