"""The isolation back-end that enforces a pod's share of a card, and whether it works there."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.isolation import IsolationBackend, Part
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.readiness import in_words, lack_of
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.view import LacksView


@dataclass(frozen=True, slots=True)
class IsolationHold:
    """How far a placed pod's share is enforced.

    `unheld` are the parts that are not enforced. `lacks` are cards on which its back-end does not
    work, and what it lacks; `untold` are cards without a report.
    """

    unheld: tuple[Part, ...] = ()
    lacks: tuple[tuple[GpuUuid, str], ...] = ()
    unreported: tuple[GpuUuid, ...] = ()


def chosen_backend(pod: Pod, profile: Profile) -> IsolationBackend | None:
    """The back-end of a waiting pod; None for one that asks for no share."""
    if pod.request is None or pod.request.claim.exclusive:
        return None
    return profile.isolation.chosen(pod.isolation)


def backend_of(record: Record, profiles: Mapping[str, Profile]) -> IsolationBackend | None:
    """Its back-end; None for a pod without a share. The pod must be this scheduler's."""
    if record.node is not None:
        return record.allocation.backend if record.allocation else None
    return chosen_backend(record.pod, profiles[record.pod.scheduler_name])


def hold_on(ledger: Ledger, node: NodeName, allocation: Allocation | None) -> IsolationHold:
    """How far the share of a placed pod is enforced, by its cards' present readiness.

    A back-end that lacks something on one of its cards enforces nothing.
    """
    backend = allocation.backend if allocation is not None else None
    if allocation is None or backend is None:
        return IsolationHold()
    if backend is IsolationBackend.NONE:
        return IsolationHold(allocation.unheld)
    told = [
        (card.uuid, lack_of(ledger.readiness_of(node, card.uuid), backend))
        for card in allocation.cards
    ]
    lacks = tuple((uuid, lack) for uuid, lack in told if lack)
    return IsolationHold(
        unheld=tuple(Part) if lacks else allocation.unheld,
        lacks=lacks,
        unreported=tuple(uuid for uuid, lack in told if lack is None),
    )


def lacks_on(ledger: Ledger, row: int, shape: Shape) -> tuple[LacksView, ...]:
    """How many of a row's cards lack something that the shape's back-end needs, and what."""
    columns, backend = ledger.columns, shape.isolation
    if shape.claim is None or backend is IsolationBackend.NONE:
        return ()
    counts = Counter(
        lack
        for slot in range(len(columns.uuids[row]))
        if not columns.flags.item(row, slot) & ABSENT
        and (lack := lack_of(columns.readiness_sets[columns.readiness.item(row, slot)], backend))
        != ""
    )
    return tuple(
        LacksView(cards=cards, lack=in_words(lack) if lack else "")
        for lack, cards in sorted(counts.items(), key=lambda item: (item[0] is None, item[0] or ""))
    )
