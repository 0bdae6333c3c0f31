"""What the page asks of the past: which times a log covers, and what was known at one of them."""

from collections.abc import Callable, Iterator, Sequence
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
    """What happened to a pod at `at_ms` (since 1970): it was `placed` on a node, `evicted`, or

    `nominated` to a node whose pods were evicted for it. `pod` is NAMESPACE/NAME.
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


class PastLog(Protocol):
    """An event log. Its methods take long, and are called by one thread at a time."""

    def spans(self) -> Sequence[PastSpan]:
        """The times that it covers, the oldest first. Raises PastUnknown."""
        ...

    def moment(self, at_ms: int, within_s: float) -> PastMoment | int:
        """The cluster at that time; or how far (ms since 1970) the log was read in `within_s`.

        The next call goes on from there. Raises PastUnknown.
        """
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
