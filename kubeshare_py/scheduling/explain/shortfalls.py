"""What nodes lack to take a waiting pod, in numbers, as the profile's plugins say it."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubeshare_py.cluster.columns import Columns
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape, by_claim
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.claims.claim_fit import fits_claim
from kubeshare_py.framework.claims.joint_needs import JointAmount, joint_needs
from kubeshare_py.framework.claims.prepared_claims import NOT_TOGETHER
from kubeshare_py.framework.reasons import FRAMEWORK
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.explain.container_views import containers_by_claim
from kubeshare_py.scheduling.explain.row_answers import NO_SLOT, RowAnswer, RowAnswers
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most calls of plugins for one pod, about 30 µs each (a card filter's 200 µs). Where nodes are
#: so different that this is too few, only reasons are given for the rest.
MAX_CALLS = 256

_UNITS = {
    JointAmount.CARDS: ("gpus", "count"),
    JointAmount.SHARE: ("gpu", "milli"),
    JointAmount.MEMORY: ("gpu memory", "bytes"),
}


@dataclass(frozen=True, slots=True)
class _PluginQuestion:
    """A plugin, what it is asked about, and the containers whose claim that is.

    `only_if_refused` is the name of a filter of nodes: it has nothing to say of nodes that it lets
    pass.
    """

    answers: RowAnswers
    containers: tuple[str, ...]
    only_if_refused: str


@dataclass(frozen=True, slots=True)
class RowLacks:
    """What the plugins say of one row: an answer for each question, and what claims lack together.

    `alike` is equal for rows that lack the same, on whichever of their cards.
    """

    answers: tuple[RowAnswer, ...] = ()
    joint: tuple[Shortfall, ...] = ()
    alike: Hashable = ()


class Shortfalls:
    """Asks the plugins of one pod's profile what rows lack.

    Card filters are asked about each claim alone. A plugin is asked once for all rows that look
    alike to it. `calls` counts.
    """

    def __init__(self, profile: Profile, record: Record) -> None:
        self.calls = 0
        self._boundary = Boundary()
        self._profile, self._record, self._shape = profile, record, record.shape
        self._layout = -1
        self._questions: list[_PluginQuestion] = []
        self._alike: dict[tuple[int, ...], Hashable] = {}

    def of(
        self, columns: Columns, row: int, refusing: Collection[str], reasons: Sequence[str]
    ) -> RowLacks | None:
        """What a row lacks; None if that would take more than MAX_CALLS.

        `refusing` are the names of the plugins that refuse it, `reasons` what they say: what claims
        lack together is added if they say so.
        """
        if columns.layout != self._layout:
            self._layout = columns.layout
            self._questions, self._alike = [*_questions(self._profile, self._record)], {}
        found = []
        for question in self._questions:
            name = question.only_if_refused
            if name and name not in refusing and FRAMEWORK not in refusing:
                found.append(_NOTHING)
                continue
            answer = question.answers.known(columns, row)
            if answer is None:
                if self.calls >= MAX_CALLS:
                    return None
                self.calls += 1
                answer = question.answers.ask(self._boundary, columns, row)
            found.append(answer)
        joint = self._joint(columns, row, reasons)
        return RowLacks(tuple(found), joint, (self._likeness(found), joint))

    def said(self, lacks: RowLacks, ledger: Ledger, row: int) -> list[Shortfall]:
        """The shortfalls of this row; for a card that could never hold a claim, only that reason.

        For a plugin that fails, that it failed. Cards are in the order of their indexes.
        """
        uuids, name = ledger.columns.uuids[row], ledger.columns.names[row]
        gpus = ledger.inventory.get(name, ()) if name is not None else ()
        indexes = {gpu.uuid: gpu.index for gpu in gpus}

        def index(lack: tuple[int, Shortfall]) -> int:
            return NO_SLOT if lack[0] == NO_SLOT else indexes.get(uuids[lack[0]], len(indexes))

        found = dict.fromkeys(
            replace(
                one,
                subject=one.subject if slot == NO_SLOT else uuids[slot],
                containers=question.containers,
            )
            for question, answer in zip(self._questions, lacks.answers, strict=True)
            for slot, one in sorted(answer.lacks, key=index)
        )
        failed = dict.fromkeys(one.failure for one in lacks.answers if one.failure)
        failures = [Shortfall(reason=failure) for failure in failed]
        hopeless = {(one.containers, one.subject) for one in found if one.asked is None}
        if any(not subject for _, subject in hopeless):
            return [one for one in found if one.asked is None] + failures
        kept = [
            one
            for one in found
            if one.asked is None
            or not hopeless & {(one.containers, one.subject), ((), one.subject)}
        ]
        return [*kept, *lacks.joint, *failures]

    def _joint(self, columns: Columns, row: int, reasons: Sequence[str]) -> tuple[Shortfall, ...]:
        together = next((text for text in reasons if text.startswith(NOT_TOGETHER)), "")
        if not together:
            return ()
        self.calls += 1
        return tuple(_together(self._record.shape, columns, row, together))

    def _likeness(self, answers: Sequence[RowAnswer]) -> Hashable:
        """Equal for answers that differ only in which cards they are about."""
        same = tuple(map(id, answers))  # an answer is kept, and is the same object if it is equal
        if same not in self._alike:
            cards: dict[int, list[Hashable]] = {}
            for number, answer in enumerate(answers):
                for slot, one in answer.lacks:
                    cards.setdefault(slot, []).append((number, one))
            node = tuple(cards.pop(NO_SLOT, ()))
            failures = tuple(one.failure for one in answers)
            counts = Counter(tuple(one) for one in cards.values())
            self._alike[same] = (node, failures, frozenset(counts.items()))
        return self._alike[same]


_NOTHING = RowAnswer()


def _together(shape: Shape, columns: Columns, row: int, reason: str) -> Iterator[Shortfall]:
    """How much less is free than all claims take; nothing if it is only badly divided."""
    rows = SomeRows(columns, np.array([row]))
    fitting = [fits_claim(claim)(rows) for claim in shape.claims]
    needs = joint_needs(shape, rows, fitting, free=True)
    lacking = [need for need in needs if need.needed.item() > need.there.item()]
    if len(lacking) > 1 and not any(claim.asks_memory for claim in shape.claims):
        # The memory goes with the share, which is lacking.
        lacking = [need for need in lacking if need.amount is not JointAmount.MEMORY]
    for need in lacking:
        resource, unit = _UNITS[need.amount]
        asked, free = need.needed.item(), need.there.item()
        yield Shortfall(reason=reason, resource=resource, asked=asked, free=free, unit=unit)


def _questions(profile: Profile, record: Record) -> Iterator[_PluginQuestion]:
    """Each plugin that explains, with each thing that it is asked about."""
    shape = record.shape
    by_container = [*zip(by_claim(shape), containers_by_claim(record) or [()], strict=True)]
    for one in profile.explains:
        trusted = profile.trusts(one.plugin)
        name = "" if one.of_claims else one.filters_as
        for asked, containers in by_container if one.of_claims else [(shape, ())]:
            yield _PluginQuestion(RowAnswers(one, asked, trusted=trusted), containers, name)
