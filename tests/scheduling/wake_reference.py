"""When a machine is to be woken, asked of each part by what it keeps, without its alarms."""

import math
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from kubeshare_py.scheduling.enqueue import OUTSIDE_PATIENCE_S
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.retries import LOOK_S
from tests.scheduling.machine_state import objects_of

#: The timers of each machine, which has the same ones for as long as it lives: of gangs, others.
_timers_of: WeakKeyDictionary[Machine, tuple[list[Timers[Any]], list[Timers[Any]]]] = (
    WeakKeyDictionary()
)


def wake_at(machine: Machine, now: float) -> float | None:
    """What `Machine.wake_at` must say."""
    if has_work_at_once(machine):
        return now
    is_ready = machine._iterations.unfinished or any(machine.pre_binds.ready)
    if is_ready and machine._free_slots(1) > 0:
        return now
    at = min(due_times(machine), default=math.inf)
    return None if at == math.inf else at


def has_work_at_once(machine: Machine) -> bool:
    """Whether a part has something to do whatever the time."""
    gangs, edits, binds = machine.gang_cycles.reports, machine._group_edits, machine.pre_binds
    reports = bool(machine._reports._pending or gangs._pending or gangs._warnings)
    cards = bool(machine.ledger.overdrafts or machine._card_changes._queue)
    members = bool(edits._leaving or edits._joining)
    return (
        reports
        or cards
        or members
        or bool(binds._doubtful or binds._changed or binds.turns._doubtful)
    )


def due_times(machine: Machine) -> Iterator[float]:
    """When (s) each part has something to do by time alone; gangs only if there are any."""
    of_gangs, others = timers(machine)
    for one in [*others, *(of_gangs if machine.gangs.by_key else ())]:
        yield from (when for when, _, _ in one._heap[:1])
    enqueuer, flush, strays = machine._enqueuer, machine._flush, machine._event_handlers.strays
    yield min(enqueuer._unreported.values(), default=math.inf) + OUTSIDE_PATIENCE_S
    yield enqueuer._moves_rest_until if enqueuer.limit.moved else math.inf
    yield from (one.due_at for one in machine._retries._known.values() if not one.retried)
    first = min(flush._queue.unschedulable_from, flush._gang_queue.unschedulable_from)
    yield max(first + flush._after_s, flush._looked_at + LOOK_S)
    yield from (when for when, _ in ([*strays._due][:1] if machine.decides else ()))
    # What these two wait for depends on when they looked last.
    yield machine.pre_binds.limits._alarm.at
    yield machine.pre_binds.turns._alarm.at


def timers(machine: Machine) -> tuple[list[Timers[Any]], list[Timers[Any]]]:
    """All timers below the machine: those of gangs, and the others."""
    if machine not in _timers_of:
        cycles = machine.gang_cycles
        of_gangs: list[Timers[Any]] = [
            cycles._rested,
            cycles._look,
            cycles._quiet,
            cycles._repair._due,
            cycles.reports._due,
        ]
        found = [one for one in objects_of(machine) if isinstance(one, Timers)]
        assert all(any(one is other for other in found) for one in of_gangs)
        others = [one for one in found if all(one is not other for other in of_gangs)]
        _timers_of[machine] = of_gangs, others
    return _timers_of[machine]
