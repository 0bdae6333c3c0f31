"""What happened to a pod, or on a node, a card or in a namespace, as an event log has it."""

import msgspec

from kubeshare_py.views.view import ScoreView


class ScoredNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node's weighted sum of scores for a pod when its turn began, and what each plugin gave."""

    node: str
    score: int
    scores: tuple[ScoreView, ...] = ()


class HistoryEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that happened, at a time (RFC 3339). `pod` is NAMESPACE/NAME, "" for none.

    `what` is one of: seen, waits, placed, refused, nominated, evicted, gone, node, card. `chosen`
    and `runner_up` are set for pods that were placed by scores.
    """

    time: str
    what: str
    pod: str = ""
    node: str = ""
    cards: tuple[str, ...] = ()
    message: str = ""
    chosen: ScoredNode | None = None
    runner_up: ScoredNode | None = None
