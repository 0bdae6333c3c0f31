"""How a question is answered: in steps, and for a reader that may see some namespaces' pods."""

from collections.abc import Callable, Generator, Mapping
from typing import TypeVar

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Reservation

# Answers that take long, made in steps of some milliseconds.
#
# Between steps the machine may go on, so that a question about a large cluster delays no decision.


T = TypeVar("T")

#: Yields after each step, and returns the answer.
Steps = Generator[None, None, T]


def completed(steps: Steps[T]) -> T:
    """The answer, with all its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer


# Which namespaces' pods a reader of the state may see named.


#: Whether pods of this namespace may be named.
Sees = Callable[[str], bool]

#: Stands for a pod, or a pod group, that may not be named.
UNNAMED = "a pod of another namespace"


def sees_all(_namespace: str) -> bool:
    """An administrator's view."""
    return True


def sees_none(_namespace: str) -> bool:
    """A reader without any right to see pods."""
    return False


def namespaces(machine: Machine) -> set[str]:
    """The namespaces of all pods that the machine knows; 5 ms for 50,000 pods."""
    return {record.pod.key.namespace for record in machine.records.values()}


def reservation_name(machine: Machine, reservation: Reservation, sees: Sees) -> str:
    """The name of a holder of reservations; UNNAMED unless all its pods may be named."""
    return reservation.name if _all_seen(machine.records, reservation, sees) else UNNAMED


def _all_seen(records: Mapping[PodUid, Record], reservation: Reservation, sees: Sees) -> bool:
    if sees is sees_all:
        return True
    known = [records[uid].pod.key.namespace for uid in reservation.uids if uid in records]
    # Without a pod, its namespaces are unknown.
    return bool(known) and all(sees(namespace) for namespace in known)
