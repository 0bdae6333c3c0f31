"""Whether a card has what an isolation back-end needs, as far as its node reports.

A back-end without a report is not known to work, nor not to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.remembered import remembered


class Lack(StrEnum):
    """What may be missing, as collectors name it. Any other name becomes `OTHER`.

    Otherwise arbitrary names would make the scheduler remember each of them.
    """

    OLD_DRIVER = "old-driver"
    CGROUP_V1 = "cgroup-v1"
    MIG = "mig"
    NO_HOOK = "no-hook"
    NO_DAEMON = "no-daemon"
    NO_LIBRARY = "no-library"
    OTHER = "other"


#: The word for nothing missing.
READY = "ready"
#: The back-ends that need something of the card's node.
NEEDY = tuple(one for one in IsolationBackend if one is not IsolationBackend.NONE)

#: Words that follow "it has" and "GPUs with".
_WORDS: Mapping[str, str] = {
    Lack.OLD_DRIVER: "a driver older than r615",
    Lack.CGROUP_V1: "cgroup v1 on its node",
    Lack.MIG: "MIG, whose instances the driver does not limit",
    Lack.NO_HOOK: "no CDI specification with the hook for memory limits",
    Lack.NO_DAEMON: "no running MPS daemon",
    Lack.NO_LIBRARY: "no libgemhook.so.1 on its node",
    Lack.OTHER: "something missing that this version does not know",
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """What one back-end lacks on a card; "" if nothing that can be seen."""

    backend: IsolationBackend
    lack: str = ""


#: The readiness of one card: each back-end with a report, once.
ReadinessReport = tuple[Readiness, ...]


def lack_of(told: ReadinessReport, backend: IsolationBackend) -> str | None:
    """What a back-end lacks, "" for nothing; None if unknown."""
    if backend is IsolationBackend.NONE:
        return ""
    return next((one.lack for one in told if one.backend is backend), None)


def in_words(lack: str) -> str:
    """What a card has, or lacks, that prevents a back-end from working."""
    return _WORDS[lack]


def as_labels(told: ReadinessReport) -> tuple[tuple[str, str], ...]:
    """For each back-end with a report: what it lacks, or that it is ready."""
    return tuple((one.backend.value, one.lack or READY) for one in told)


def of_labels(labels: Iterable[tuple[str, str]]) -> ReadinessReport:
    """The reverse of `as_labels`; unknown back-ends and those with "" are left out."""
    return _of_labels(tuple(labels))


@lru_cache(maxsize=1024)
def one_object(told: ReadinessReport) -> ReadinessReport:
    """The same object for equal values: tens of thousands of cards need not keep a copy each."""
    return told


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


def _known(word: str) -> Lack:
    return Lack(word) if word in _WORDS else Lack.OTHER
