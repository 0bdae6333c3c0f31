"""Reports on waiting gangs: what members show, and how often. All members show the same."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import PodWarning, ReportPodWarning, ReportWaiting
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.queue.gangs import Gang, MemberRole, Shortage
from kubeshare_py.scheduling.queue.timers import Alarms, Timers
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
#: The most other runs of a group, and owners of a run, that a text names.
RUNS_NAMED, OWNERS_NAMED = 2, 2


class GangReports:
    """Produces reports in small portions.

    Of a gang it changes only what is reported: `diagnosis`, `unreported`, `is_warned`.
    """

    def __init__(self, alarms: Alarms) -> None:
        self._pending: deque[tuple[Gang, PodUid]] = deque()
        self._due: Timers[Gang] = Timers(alarms)
        self._waited_for: set[Gang] = set()
        self._warnings: list[ReportPodWarning] = []
        #: Of what a further portion is ready now; to be read.
        self.at_once = self._pending, self._warnings

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

    def meets_others(self, gang: Gang) -> None:
        """Warn, once for each run, that another run has the same group at the same time."""
        if gang.is_warned or not gang.waiting or next(gang.other_runs(), None) is None:
            return
        gang.is_warned = True
        pod = min(gang.waiting.values(), key=lambda record: record.arrived).pod
        note = (
            f'pod group "{gang.title}"{_whose(gang)} starts on its own{_others(gang)}: '
            "give each run a name of its own, or one PodGroup to all pods that belong together"
        )
        self._warnings.append(ReportPodWarning(pod.uid, pod.key, PodWarning.SAME_GROUP, note))

    def portion(self) -> list[ReportWaiting | ReportPodWarning]:
        """Warnings, and the next reports, for members that still wait."""
        reports: list[ReportWaiting | ReportPodWarning] = [*self._warnings]
        self._warnings.clear()
        while self._pending and len(reports) < REPORTS_PER_ITERATION:
            gang, uid = self._pending.popleft()
            record = gang.waiting.get(uid)
            if record is not None and gang.needs_quorum and gang.diagnosis is not None:
                reports.append(ReportWaiting(uid, record.pod.key, gang.diagnosis))
        return reports


def missing_members(gang: Gang) -> int:
    """How many members would have to be created before the gang can start."""
    held = gang.counts[MemberRole.GATED] + gang.counts[MemberRole.BACKOFF]
    return max(0, gang.need - len(gang.waiting) - held)


def too_few(gang: Gang) -> Diagnosis:
    """The diagnosis of a gang with missing or held back members."""
    there = len(gang.waiting)
    held = gang.counts[MemberRole.GATED] + gang.counts[MemberRole.BACKOFF]
    others = f", {held} of them held back" if held else ""
    return Diagnosis(
        sentence=f"{_needs(gang)}; there {_are(there + held)}{others}{_others(gang)}",
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
    needs = f"needs {gang.need}{more} {pods} to start together{where}"
    return f'pod group "{gang.title}"{_whose(gang)} {needs}'


def _whose(gang: Gang) -> str:
    """Whose run this is, if there are others; "" if there are none."""
    return f" of {_owners(gang)}" if next(gang.other_runs(), None) is not None else ""


def _others(gang: Gang) -> str:
    """What other runs (each a `Gang`) have of the group, to end a sentence; "" without any."""
    runs = list(islice(gang.other_runs(), RUNS_NAMED + 1))
    named = [f"the {_pods(len(run.members))} of {_owners(run)}" for run in runs[:RUNS_NAMED]]
    if not named:
        return ""
    if len(runs) > RUNS_NAMED:
        return f"; {', '.join(named)} and more are other runs"
    verb = "are another run" if len(named) == 1 else "are other runs"
    verb = verb.replace("are", "is") if len(named) == 1 and len(runs[0].members) == 1 else verb
    return f"; {' and '.join(named)} {verb}"


def _owners(gang: Gang) -> str:
    """The owners of a run's members, for people."""
    titles = dict.fromkeys(
        member.record.pod.owner_title or "no controller" for member in gang.members.values()
    )
    names = list(titles)
    if len(names) > OWNERS_NAMED:
        return f"{', '.join(names[:OWNERS_NAMED])} and others"
    return " and ".join(names)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


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
