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
from kubeshare_py.domain.readiness import in_words, not_ready_reason
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.view import CardsNotReadyView


@dataclass(frozen=True, slots=True)
class IsolationHold:
    """How far a placed pod's share is enforced.

    `unheld` are the parts that are not enforced. `not_ready` are cards on which its back-end does
    not work, with the reason; `unreported` are cards without a report.
    """

    unheld: tuple[Part, ...] = ()
    not_ready: tuple[tuple[GpuUuid, str], ...] = ()
    unreported: tuple[GpuUuid, ...] = ()


def chosen_backend(pod: Pod, profile: Profile) -> IsolationBackend | None:
    """The back-end of a waiting pod; None for one that asks for no share."""
    if pod.request is None or pod.request.is_exclusive:
        return None
    return profile.isolation.chosen(pod.isolation)


def backend_of(record: Record, profiles: Mapping[str, Profile]) -> IsolationBackend | None:
    """Its back-end; None for a pod without a share. The pod must be this scheduler's."""
    if record.node is not None:
        return record.allocation.backend if record.allocation else None
    return chosen_backend(record.pod, profiles[record.pod.scheduler_name])


def hold_on(ledger: Ledger, node: NodeName, allocation: Allocation | None) -> IsolationHold:
    """How far the share of a placed pod is enforced, by its cards' present readiness.

    Cards that are for the pod alone need no back-end. A back-end that is not ready on one of its
    cards enforces nothing.
    """
    backend = allocation.backend if allocation is not None else None
    if allocation is None or backend is None:
        return IsolationHold()
    if backend is IsolationBackend.NONE:
        return IsolationHold(allocation.unheld)
    reasons = [
        (card.uuid, not_ready_reason(ledger.readiness_of(node, card.uuid), backend))
        for card in allocation.cards
        if not card.exclusive
    ]
    not_ready = tuple((uuid, reason) for uuid, reason in reasons if reason)
    return IsolationHold(
        unheld=tuple(Part) if not_ready else allocation.unheld,
        not_ready=not_ready,
        unreported=tuple(uuid for uuid, reason in reasons if reason is None),
    )


def not_ready_on(ledger: Ledger, row: int, shape: Shape) -> tuple[CardsNotReadyView, ...]:
    """On how many of a row's cards the shape's back-end is not ready, by reason."""
    columns, backend = ledger.columns, shape.isolation
    if not shape.claims or backend is IsolationBackend.NONE:
        return ()
    reports = columns.readiness_sets
    counts = Counter(
        reason
        for slot in range(len(columns.uuids[row]))
        if not columns.flags.item(row, slot) & ABSENT
        and (reason := not_ready_reason(reports[columns.readiness.item(row, slot)], backend)) != ""
    )
    return tuple(
        CardsNotReadyView(cards=cards, reason=in_words(reason) if reason else "")
        for reason, cards in sorted(
            counts.items(), key=lambda item: (item[0] is None, item[0] or "")
        )
    )
