"""From one reading of Prometheus to the next: which nodes' cards changed, and which are silent.

A card is gone when its node's collector answers (`up` is 1) and does not list it. A collector that
does not answer reports nothing: its node keeps its last known cards and counts as silent.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.inventory.sample_merge import Reading, SampleMerge
from kubeshare_py.inventory.series import CAPACITY, Matcher, Series, selects


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryStep:
    """The next reading, the nodes whose cards differ from the last one, and what was ignored."""

    reading: Reading
    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    diagnostics: tuple[str, ...]


def next_reading(
    previous: Reading,
    vector: Iterable[Series],
    now: float,
    selector: tuple[Matcher, ...] = (),
    *,
    unix_now: float | None = None,
) -> InventoryStep:
    """Take in one instant vector with the series of collectors and `up`, read at one instant.

    All must come from one query. Read separately, a collector that restarts in between looks like
    one that answers and has no cards. `now` (s) is of any clock that `previous` used and that is
    never set; `unix_now` (s) is compared with the collectors' clocks.
    """
    selected: list[Series] = []
    others: list[Series] = []
    for series in vector:
        (selected if selects(selector, series.labels) else others).append(series)
    merge = SampleMerge(previous)
    merge.take(selected)
    cards = merge.cards_by_node()
    scrapes = merge.scrapes(now)
    merge.check_collectors()
    merge.check_faults()
    if unix_now is not None:
        merge.check_clocks(unix_now)
    silent = sorted(merge.silent(scrapes, now))
    reading = Reading(
        cards=cards,
        collectors=merge.collectors,
        silent_since={node: previous.silent_since.get(node, now) for node in silent},
        scrapes=scrapes,
    )
    changed = tuple(
        (node, cards[node])
        for node in sorted(cards)
        if node not in previous.cards or previous.cards[node] != cards[node]
    )
    return InventoryStep(
        reading=reading,
        changed=changed,
        diagnostics=tuple(
            beginning(one, MAX_SAID) for one in (*_ignored(others), *merge.diagnostics)
        ),
    )


def _ignored(others: Iterable[Series]) -> list[str]:
    """One sentence for each job whose series the selector leaves out."""
    cards = [series for series in others if series.name == CAPACITY]
    counts = Counter(series.labels.get("job", "") for series in cards)
    examples = {series.labels.get("job", ""): series for series in reversed(cards)}
    return [
        f"{count} {CAPACITY} series of job {job!r} ignored, which the selector leaves out; one is "
        f"{examples[job].own('uuid') or '?'} of node {examples[job].own('node') or '?'}"
        for job, count in sorted(counts.items())
    ]


# Splits a long reading into portions, so that taking in one of them is always quick.


#: Taking in a card costs about 7 µs, and more on a node with many pods.
CARDS_A_PORTION = 400


def portions(read: InventoryRead, most: int = CARDS_A_PORTION) -> Iterator[InventoryRead]:
    """The reading in portions, in order; all but the last have `more` set.

    A portion ends with the node whose cards fill it; a node without cards counts as one card.
    """
    first = size = 0
    for number, (_, cards) in enumerate(read.changed, 1):
        size += max(len(cards), 1)
        if size >= most and number < len(read.changed):
            yield InventoryRead(read.changed[first:number], more=True)
            first, size = number, 0
    yield InventoryRead(read.changed[first:], read.silent, more=read.more)
