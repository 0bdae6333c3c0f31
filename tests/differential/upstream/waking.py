"""Which pods this scheduler binds after a change, of those that fitted nowhere before it."""

from collections.abc import Iterable, Sequence
from typing import Any

from kubeshare_py.domain.events import BindSlotsFree, Event
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.manifests.watch import ADDED, DELETED
from kubeshare_py.scheduling.machine import Machine
from tests.differential.ours import listed_events, machine_for, watch_events
from tests.differential.upstream.reading import WakingCase

Json = dict[str, Any]

_BEFORE, _AFTER = 1.0, 2.0


def bound(case: WakingCase) -> tuple[frozenset[str], frozenset[str]]:
    """The pods that are bound at once, and those that are bound after the changes as well.

    Each pod waits alone, so that none takes the place of another.
    """
    at_once, later = set(), set()
    for pod in case.waiting:
        name = pod["metadata"]["name"]
        uid = PodUid(pod["metadata"]["uid"])
        machine = machine_for({})
        _handle(machine, listed_events(case.objects), _BEFORE)
        _handle(machine, (*watch_events(ADDED, pod), BindSlotsFree(1)), _BEFORE)
        if machine.records[uid].node:
            at_once.add(name)
        for change, changed in _seen_with(pod, case.changes):
            _handle(machine, watch_events(change, changed), _AFTER)
        _handle(machine, (BindSlotsFree(1),), _AFTER)
        if machine.records[uid].node:
            later.add(name)
    return frozenset(at_once), frozenset(later)


def before_and_after(case: WakingCase, pod: Json) -> tuple[Json, Json]:
    """The case with this pod alone, before the changes and after them, as questions."""
    known = {_identity(one): one for one in case.objects}
    after, pod_after = dict(known), pod
    for change, changed in _seen_with(pod, case.changes):
        if _identity(changed) == _identity(pod):
            pod_after = changed
        elif change == DELETED:
            del after[_identity(changed)]
        else:
            after[_identity(changed)] = changed
    return (
        {"objects": [*known.values()], "pod": pod},
        {"objects": [*after.values()], "pod": pod_after},
    )


def _seen_with(pod: Json, changes: Sequence[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Without changes of other pods that wait."""
    return [
        (change, one)
        for change, one in changes
        if one["kind"] != "Pod" or "nodeName" in one["spec"] or _identity(one) == _identity(pod)
    ]


def _identity(one: Json) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def _handle(machine: Machine, events: Iterable[Event], now: float) -> None:
    for event in events:
        machine.handle(event, now)
