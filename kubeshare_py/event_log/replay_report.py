"""What a replay found, as values and as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kubeshare_py.event_log.what_if import PodOutcome

#: The most differences that are kept.
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """Effects that are not those of the log. `number` counts the session's events from 1."""

    number: int
    time: str
    event: str
    difference: str


@dataclass(slots=True, kw_only=True)
class ReplayReport:
    """A session that was run again, up to its end, to `--until`, or to where it is damaged."""

    session: str
    version: str
    is_snapshot: bool
    began: str = ""
    ended: str = ""
    events: int = 0
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    #: Where the log is damaged; "" if it is not.
    damage: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PodReport:
    """What the log says about one pod, and how the replay of all went."""

    lines: tuple[str, ...]
    replay: ReplayReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfReport:
    """What other profiles would have done, in numbers, and the pods for which they differ."""

    pods: int
    placed: tuple[int, int]
    never_placed: tuple[int, int]
    nodes: tuple[int, int]
    mean_wait_s: tuple[float, float]
    evicted: int
    moved: int
    examples: tuple[PodOutcome, ...]


def what_if_report(outcomes: Sequence[PodOutcome]) -> WhatIfReport:
    """Pairs are (in the log, here)."""
    logged = [one for one in outcomes if one.logged_node]
    here = [one for one in outcomes if one.node]
    moved = [one for one in outcomes if not one.is_same]
    return WhatIfReport(
        pods=len(outcomes),
        placed=(len(logged), len(here)),
        never_placed=(len(outcomes) - len(logged), len(outcomes) - len(here)),
        nodes=(len({one.logged_node for one in logged}), len({one.node for one in here})),
        mean_wait_s=(
            _mean([one.logged_wait_s for one in logged]),
            _mean([one.wait_s for one in here]),
        ),
        evicted=sum(one.is_evicted for one in outcomes),
        moved=len(moved),
        examples=tuple(moved[:MAX_SHOWN]),
    )


def replay_lines(report: ReplayReport) -> Iterator[str]:
    """The report as text."""
    yield f"session {report.session}: {report.events} events, {report.began} to {report.ended}"
    yield from report.notes
    for one in report.differences:
        yield f"{one.time} event {one.number}, {one.event}: {one.difference}"
    if report.differing > len(report.differences):
        yield f"… and {report.differing - len(report.differences)} more"
    same = "the effects of all events are those of the log"
    yield f"the effects of {report.differing} events differ" if report.differing else same


def what_if_lines(report: WhatIfReport) -> Iterator[str]:
    """The report as text."""
    yield f"{report.pods} pods were not bound when the log first shows them"
    yield f"{'':<24}{'in the log':>12}{'here':>12}"
    for name, (logged, here) in (
        ("placed", report.placed),
        ("never placed", report.never_placed),
        ("nodes used", report.nodes),
        ("mean wait (s)", report.mean_wait_s),
    ):
        yield f"{name:<24}{logged:>12}{here:>12}"
    yield f"{'evicted':<24}{'':>12}{report.evicted:>12}"
    for one in report.examples:
        logged_place = _place(one.logged_node, one.logged_wait_s)
        here_place = _place(one.node, one.wait_s)
        evicted = ", then evicted" if one.is_evicted else ""
        yield f"{one.key}: {logged_place} in the log, {here_place}{evicted} here"
    if report.moved > len(report.examples):
        yield f"… and {report.moved - len(report.examples)} more pods"
    if not report.moved:
        yield "every pod has the same node"


def _place(node: str | None, wait_s: float) -> str:
    return f"{node} after {wait_s:.1f} s" if node else "not placed"


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0
