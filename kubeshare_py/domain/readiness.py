"""Whether a card has what an isolation back-end needs, as far as its node reports.

A back-end without a report is not known to work, nor not to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.remembered import remembered


class NotReadyReason(StrEnum):
    """Why a back-end is not ready on a card, as collectors name it. Any other name becomes `OTHER`.

    Otherwise arbitrary names would make the scheduler remember each of them.
    """

    OLD_DRIVER = "old-driver"
    CGROUP_V1 = "cgroup-v1"
    MIG = "mig"
    NO_HOOK = "no-hook"
    NO_DAEMON = "no-daemon"
    NO_LIBRARY = "no-library"
    NO_LIBVGPU = "no-libvgpu"
    OTHER = "other"


#: The word for nothing missing.
READY = "ready"
#: The back-ends that need something of the card's node.
NEEDY = tuple(one for one in IsolationBackend if one is not IsolationBackend.NONE)

#: Words that follow "it has" and "GPUs with".
_WORDS: Mapping[str, str] = {
    NotReadyReason.OLD_DRIVER: "a driver older than r615",
    NotReadyReason.CGROUP_V1: "cgroup v1 on its node",
    NotReadyReason.MIG: "MIG, whose instances the driver does not limit",
    NotReadyReason.NO_HOOK: "no CDI specification with the hook for memory limits",
    NotReadyReason.NO_DAEMON: "no running MPS daemon",
    NotReadyReason.NO_LIBRARY: "no libgemhook.so.1 on its node",
    NotReadyReason.NO_LIBVGPU: "no libvgpu.so on its node",
    NotReadyReason.OTHER: "something missing that this version does not know",
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """Why one back-end is not ready on a card; "" if it is, as far as can be seen."""

    backend: IsolationBackend
    reason: str = ""


#: The readiness of one card: each back-end with a report, once.
ReadinessReport = tuple[Readiness, ...]


def not_ready_reason(report: ReadinessReport, backend: IsolationBackend) -> str | None:
    """Why a back-end is not ready, "" if it is; None if unknown."""
    if backend is IsolationBackend.NONE:
        return ""
    return next((one.reason for one in report if one.backend is backend), None)


def in_words(reason: str) -> str:
    """What a card has, or lacks, that prevents a back-end from working."""
    return _WORDS[reason]


def as_labels(report: ReadinessReport) -> tuple[tuple[str, str], ...]:
    """For each back-end with a report: `READY`, or why it is not ready."""
    return tuple((one.backend.value, one.reason or READY) for one in report)


def of_labels(labels: Iterable[tuple[str, str]]) -> ReadinessReport:
    """The reverse of `as_labels`; unknown back-ends and those with "" are left out."""
    return _of_labels(tuple(labels))


@lru_cache(maxsize=1024)
def one_object(report: ReadinessReport) -> ReadinessReport:
    """The same object for equal values: tens of thousands of cards need not keep a copy each."""
    return report


@remembered(1024)
def _of_labels(labels: tuple[tuple[str, str], ...]) -> ReadinessReport:
    words = dict(labels)
    return one_object(
        tuple(
            Readiness(backend, "" if word == READY else _known(word))
            for backend in NEEDY
            if (word := words.get(backend, ""))
        )
    )


def _known(word: str) -> NotReadyReason:
    return NotReadyReason(word) if word in _WORDS else NotReadyReason.OTHER
