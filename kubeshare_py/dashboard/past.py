"""What the page asks of the past: which times a log covers, and what was known at one of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from kubeshare_py.dashboard.page_state import PageState
from kubeshare_py.views.view import ClusterView, WhyView

#: Whether pods of this namespace may be named to the viewer.
MayName = Callable[[str], bool]


class PastUnknown(Exception):
    """Nothing is known of that moment; the text says why."""


class PastSpan(NamedTuple):
    """A log was written from `begin_ms` to `end_ms` (since 1970); `name` is the session's."""

    begin_ms: int
    end_ms: int
    name: str


class PastMark(NamedTuple):
    """What happened to a pod at `at_ms` (since 1970).

    It was `placed` on a node, `evicted`, or `nominated` to a node whose pods were evicted for it.
    `pod` is NAMESPACE/NAME.
    """

    at_ms: int
    what: str
    pod: str
    node: str

    @property
    def namespace(self) -> str:
        """That of the pod."""
        return self.pod.partition("/")[0]


class PastMoment(Protocol):
    """The cluster as it was then, until the log is asked about another moment."""

    #: The time of the last event by then (ms since 1970).
    at_ms: int
    #: What is damaged of the log; "" if nothing is.
    note: str

    def namespaces(self) -> set[str]:
        """Those of all pods that were there."""
        ...

    def view(self, may_name: MayName) -> ClusterView:
        """The whole cluster."""
        ...

    def why(self, namespace: str, name: str, may_name: MayName) -> WhyView | None:
        """Why that pod was where it was; None if there was none."""
        ...

    def marks(self, may_name: MayName) -> list[PastMark]:
        """The last placements and evictions by then, the newest first."""
        ...


class HeldRow(NamedTuple):
    """What a pod held of the cards of a model on a node, over some time.

    `card_hours` are hours of a whole card, and `gib_hours` hours of a GiB of memory.
    """

    namespace: str
    pod: str
    model: str
    node: str
    card_hours: float
    gib_hours: float


class HeldUsage(NamedTuple):
    """What was held from `from_ms` to `to_ms` (since 1970), and what is not known of that time."""

    from_ms: int
    to_ms: int
    rows: Sequence[HeldRow]
    notes: Sequence[str]


class PastLog(Protocol):
    """An event log. Its methods read files, and one thread at a time may call them."""

    def spans(self) -> Sequence[PastSpan]:
        """The times that it covers, the oldest first. Raises PastUnknown."""
        ...

    def moment(self, at_ms: int, within_s: float) -> PastMoment | int:
        """The cluster at that time; or how far (ms since 1970) the log was read in `within_s`.

        The next call goes on from there. Raises PastUnknown.
        """
        ...

    def usage(self, from_ms: int, to_ms: int) -> HeldUsage:
        """What was held between these times. Raises PastUnknown."""
        ...


def page_of(moment: PastMoment, may_name: MayName) -> Iterator[bytes]:
    """The answer to the page in pieces: the rows as of now, and what happened before."""
    state = PageState()
    for _ in state.take(msgspec.json.encode(moment.view(may_name))):
        pass
    past = {
        "at": moment.at_ms,
        "note": moment.note,
        "marks": moment.marks(may_name),
    }
    yield b'{"version":"past","whole":true,"problem":"","past":' + msgspec.json.encode(past) + b","
    yield from state.whole()
    yield b"}"


#: What the page adds usage up by, and what the rows of its table are called by then.
USAGE_BY: Mapping[str, Callable[[HeldRow], str]] = {
    "team": lambda one: one.namespace,
    "pod": lambda one: one.namespace and f"{one.namespace}/{one.pod}",
    "model": lambda one: one.model,
    "node": lambda one: one.node,
}


class UsageSum(msgspec.Struct):
    """A row of the page's table, with sums of `card_hours` and `gib_hours`.

    `pods` that may not be named count as well.
    """

    key: str
    namespace: str
    card_hours: float = 0.0
    gib_hours: float = 0.0
    pods: int = 0


def usage_by(rows: Iterable[HeldRow], by: str, may_name: MayName) -> list[UsageSum]:
    """The sums by a word of USAGE_BY, the most cards first; what may not be named is "" together.

    Raises KeyError for another word.
    """
    key_of, found = USAGE_BY[by], dict[str, UsageSum]()
    pods: dict[str, set[tuple[str, str]]] = {}
    for one in rows:
        shown = one if may_name(one.namespace) else one._replace(namespace="", pod="")
        key = key_of(shown)
        total = found.setdefault(key, UsageSum(key, shown.namespace))
        total.card_hours += one.card_hours
        total.gib_hours += one.gib_hours
        pods.setdefault(key, set()).add((one.namespace, one.pod))
    for key, total in found.items():
        total.pods = len(pods[key])
    return sorted(found.values(), key=lambda one: (-one.card_hours, -one.gib_hours, one.key))
