"""Reports on waiting gangs: what members show, and how often. All members show the same."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.queue.gangs import Gang, MemberRole, Shortage
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.queue.waiting_reports import (
    NEWCOMERS_S,
    PODS_A_SECOND,
    REPORTS_PER_ITERATION,
)

#: The constant part of texts about gangs with missing members.
TOO_FEW_PODS = "too few pods of the group"
#: The most different requests that a text names.
SHAPES_NAMED = 3
#: The most models that a text names.
MODELS_NAMED = 4


class GangReports:
    """Produces reports in small portions."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Gang, PodUid]] = deque()
        self._due: Timers[Gang] = Timers()
        self._waited_for: set[Gang] = set()

    @property
    def more(self) -> bool:
        """Whether a further portion is ready now."""
        return bool(self._pending)

    @property
    def next_at(self) -> float:
        """When the next report is due; infinity if none is."""
        return self._due.next_at if self._waited_for else math.inf

    def incomplete(self, gang: Gang, now: float) -> None:
        """Members are missing. Mostly they are about to be created, so the report waits."""
        if gang.waiting and gang not in self._waited_for:
            self._waited_for.add(gang)
            self._due.add(now + max(NEWCOMERS_S, len(gang.waiting) / PODS_A_SECOND), gang)

    def look(self, now: float) -> None:
        """Report on gangs whose members are still missing."""
        for gang in self._due.due(now):
            self._waited_for.discard(gang)
            if gang.needs_quorum and gang.waiting and len(gang.waiting) < gang.need:
                self.report(gang, too_few(gang))

    def short(self, gang: Gang, shortage: Shortage) -> None:
        """Report that a gang does not fit."""
        self.report(gang, too_little(gang, shortage))

    def report(self, gang: Gang, diagnosis: Diagnosis) -> None:
        """Report to all members; if nothing is new, only to those without this report."""
        members = gang.unreported if gang.diagnosis == diagnosis else gang.waiting
        self._pending.extend((gang, uid) for uid in members)
        gang.diagnosis = diagnosis
        gang.unreported.clear()

    def portion(self) -> list[ReportWaiting]:
        """The next reports, for members that still wait."""
        reports: list[ReportWaiting] = []
        while self._pending and len(reports) < REPORTS_PER_ITERATION:
            gang, uid = self._pending.popleft()
            record = gang.waiting.get(uid)
            if record is not None and gang.needs_quorum and gang.diagnosis is not None:
                reports.append(ReportWaiting(uid, record.pod.key, gang.diagnosis))
        return reports


def too_few(gang: Gang) -> Diagnosis:
    """The diagnosis of a gang with missing or held back members."""
    there = len(gang.waiting)
    held = gang.counts[MemberRole.GATED] + gang.counts[MemberRole.BACKOFF]
    others = f", {held} of them held back" if held else ""
    return Diagnosis(
        sentence=f"{_needs(gang)}; there {_are(there + held)}{others}",
        topic=TOO_FEW_PODS,
        reason=WaitingReason.NOT_READY,
    )


def too_varied(gang: Gang, most: int) -> Diagnosis:
    """The diagnosis of a gang whose members have more shapes than allowed."""
    found = len(gang.shapes)
    return Diagnosis(
        sentence=f"{_needs(gang)}, which differ in {found} ways in what they ask for and where "
        f"they may go; at most {most} are tried together",
        reason=WaitingReason.NOT_READY,
    )


def too_little(gang: Gang, shortage: Shortage) -> Diagnosis:
    """The diagnosis of a gang that does not fit."""
    if shortage.is_nowhere:
        return Diagnosis(sentence=f"{_needs(gang)}; no node has this label")
    diagnosis = shortage.diagnosis
    if diagnosis.sentence:
        return replace(diagnosis, sentence=f"{_needs(gang)}; {diagnosis.sentence}")
    lacking = [_asking(shape, count) for shape, count in shortage.lacking]
    if len(lacking) > SHAPES_NAMED:
        rest = sum(count for _, count in shortage.lacking[SHAPES_NAMED:])
        lacking[SHAPES_NAMED:] = [f"{rest} others"]
    room = f"room for {shortage.fitting} of them" if shortage.fitting else ""
    if shortage.by_model:
        room = _by_model(shortage.by_model)
    limit = diagnosis.limit or shortage.limit
    lacks = f"{limit}." if limit else f"none for {' and '.join(lacking)}:"
    between = "; " if limit else ", "
    preface = f"{room}{between}{lacks}" if room else lacks
    return Diagnosis(
        nodes=diagnosis.nodes,
        counts=diagnosis.counts,
        plugins=diagnosis.plugins,
        preface=f"{_needs(gang)}; {preface}",
        remark=gang.remark,
    )


def _by_model(fitting: Sequence[tuple[str, int]]) -> str:
    """How many members fit on each model, where all must have one model."""
    named = [f"{count} of them on {model}" for model, count in fitting[:MODELS_NAMED]]
    rest = fitting[MODELS_NAMED:]
    if rest:
        named.append(f"at most {max(count for _, count in rest)} on any of {len(rest)} others")
    return f"all on GPUs of one model; room for {' and '.join(named)}"


def _needs(gang: Gang) -> str:
    more = " more" if gang.placed else ""
    pods = "pod" if gang.need == 1 else "pods"
    where = f" in one {gang.within}" if gang.within else ""
    return f'pod group "{gang.title}" needs {gang.need}{more} {pods} to start together{where}'


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _asking(shape: Shape, count: int) -> str:
    """A number of pods, and what each claims, as words."""
    claims = shape.claims
    pods, each = (f"{count} that ask for", " each") if count > 1 else ("1 that asks for", "")
    if not claims:
        return f"{pods} no GPU"
    if len(claims) == 1 and claims[0].count == 1 and not claims[0].milli:
        return f"{pods} a place on a GPU"
    amount = sum(claim.count * claim.milli for claim in claims) / WHOLE_MILLI
    if len(claims) == 1 and claims[0].share_of:
        return f"{pods} {amount:g} of one {claims[0].share_of}{each}"
    return f"{pods} {amount:g} GPU{'s' if amount > 1 else ''}{each}"
