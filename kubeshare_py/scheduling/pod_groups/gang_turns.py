"""Gangs in the machine's turns: who comes together, who is decided, who waits for room."""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import MOST_BYTES, weight_of
from kubeshare_py.framework.asks import SHAPES_KEPT, Choice
from kubeshare_py.framework.rooms import Rooms
from kubeshare_py.scheduling.binding.books import Books
from kubeshare_py.scheduling.pod_groups.gang_models import fix_models
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.pod_groups.gang_plan import Forbidden, GangPlan, Placed
from kubeshare_py.scheduling.pod_groups.gang_queue import GangLine, GangQueue
from kubeshare_py.scheduling.pod_groups.gang_repair import GangRepair, RepairRules
from kubeshare_py.scheduling.pod_groups.gang_reports import UNREAD, GangReports, too_varied
from kubeshare_py.scheduling.pod_groups.kept_out import KeptOut
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.attempts import count
from kubeshare_py.scheduling.queue.earmarks import contender_of
from kubeshare_py.scheduling.queue.gangs import Composition, Gang, Shortage
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s
from kubeshare_py.scheduling.queue.waiting_reports import (
    INVENTORY_PATIENCE_S,
    PODS_A_SECOND,
    SAME_REASONS_S,
    UNASKED_S,
)

#: Compositions whose shortage is remembered.
SHORTAGES_KEPT = 256
#: A gang whose waiting members have more shapes than this is not tried: what is known of all must
#: be kept from one turn to the next until the gang is tried, in one turn.
MOST_SHAPES = SHAPES_KEPT // 2


@dataclass(slots=True)
class _Known:
    """What was missing for a composition, when, and as of which change of the ledger."""

    shortage: Shortage
    found_at: float
    found_from: int
    #: Of its composition, in bytes.
    weight: int


class GangTurns:
    """Works on the machine's books; holds which gangs wait for room."""

    def __init__(self, books: Books, rules: RepairRules) -> None:
        self._books = books
        self.rooms: dict[str, Rooms] = {}
        self.use_profiles()
        places = self.places = GangPlaces(
            books.ledger, books.profiles, books.askers, self.rooms, books.boundary
        )
        ledger = books.ledger
        self._plan = GangPlan(books.cycle, books.askers, self.rooms, books.work, places, ledger)
        kept_out = books.ledger, books.queue, books.moves, books.gangs, places
        self.kept_out = KeptOut(*kept_out)
        self.queue = GangQueue(books.shares)
        self.reports = GangReports()
        self._repair = GangRepair(books.table, books.gangs, books.intake, books.binds, rules)
        self._rested: Timers[Gang] = Timers()
        self._look: Timers[Composition] = Timers()
        self._known: OrderedDict[Composition, _Known] = OrderedDict()
        self._swept = 0
        #: Lines of gangs that rows improved for, to be looked at; and what is yet to be asked about
        #: the last of them, once that has begun.
        self._sweep: list[GangLine] = []
        self._looks: Iterator[bool] | None = None
        #: Gangs that were blocked, or joined blocked ones, since anybody looked.
        self.newcomers: dict[Gang, None] = {}
        self._inventory_read = False

    @property
    def next_at(self) -> float:
        """When time alone changes something; infinity when it does not."""
        if not self._books.gangs.by_key:
            return math.inf
        return min(
            self._repair.next_at, self._rested.next_at, self._look.next_at, self.reports.next_at
        )

    @property
    def unfinished(self) -> bool:
        """Whether a turn would find something to do without any further event."""
        if not self._books.gangs.by_key:
            return False  # nearly always, and asked at every turn
        if self._sweep or self._books.gangs.touched or self.queue.has_more:
            return True
        # Rows may have improved while lines were looked at for such that did before.
        is_behind = self._swept != self._books.ledger.improved.end
        return bool(self.queue.joined) or (is_behind and bool(self.queue.lines()))

    def use_profiles(self) -> None:
        """Other plugins say how much room there is."""
        for name, asker in self._books.askers.items():
            self.rooms[name] = Rooms(self._books.ledger, asker)

    def start_anew(self) -> None:
        """Nobody waits for room; all gangs are looked at again."""
        self.queue.clear()
        self._sweep.clear()
        self._looks = None
        self.kept_out.clear()
        self._books.earmarks.doubt_all()
        self._known.clear()
        for gang in self._books.gangs.by_key.values():
            gang.lined_by = None
            self._books.gangs.touched[gang] = None

    def time_passed(self, now: float, effects: list[Effect]) -> None:
        """Deadlines, texts that are old by now, and gangs that have rested."""
        # Who was completed by the last answers is not late.
        self._settle(now)
        self._repair.look(now, effects)
        self.reports.look(now)
        for gang in self._rested.due(now):
            self._books.gangs.touched[gang] = None
        for composition in self._look.due(now):
            known = self._known.get(composition)
            is_old = known is None or known.found_from != self._books.ledger.changed.end
            for line in self.queue.lines_of(composition):
                if line.shortage is None:
                    for gang in line.gangs:
                        self.reports.tell(gang, UNREAD)
                elif is_old:
                    self.queue.wake(line)

    def begin_turn(self, now: float, inventory_read: bool) -> None:
        """Look at what changed, and wake the gangs that improved rows may have room for."""
        self._settle(now)
        self.kept_out.look()
        read_just_now = inventory_read and not self._inventory_read
        self._inventory_read = inventory_read
        improved = self._books.ledger.improved.end
        if read_just_now or (improved != self._swept and not self._sweep):
            self._swept = improved
            self._sweep, self._looks = self._fewest_last(), None
        while self._sweep and self._books.cycle.may_look_on():
            self._look_on(self._sweep[-1])
        self._books.shares.unswept.update(line.owner for line in self._sweep)
        self.queue.let_on()

    @property
    def sweeps(self) -> bool:
        """Whether lines of gangs are yet to be looked at."""
        return bool(self._sweep)

    def is_prepared(self, gang: Gang) -> bool:
        """Whether all its shapes were asked about; some are now, as far as this turn may."""
        unasked = [one for one in gang.shapes if not self._books.askers[one[0]].knows(one[1])]
        for number, (profile, shape) in enumerate(unasked, 1):
            self.rooms[profile].total(shape)
            if number < len(unasked) and not self._books.cycle.has_budget():
                return False
        return True

    def turn_ends(self, now: float) -> None:
        """What was tried in this turn changed nothing: texts of this turn are true after it."""
        for known in self._known.values():
            if known.found_at == now:
                known.found_from = self._books.ledger.changed.end

    def first(self, now: float) -> tuple[SortKey, Gang] | None:
        """The gang that is to be tried next, and where it stands."""
        gang = self.queue.first()
        if self.queue.joined:
            self._tell_joined(now)
        return None if gang is None else (gang.key, gang)

    def decide(self, gang: Gang, now: float, effects: list[Effect]) -> int:
        """Place all that the gang needs, or nobody; how many Binds that makes."""
        for record in gang.waiting.values():
            record.attempts += 1
        claims = any(shape.claim is not None for _, shape in gang.shapes)
        if claims and not self._inventory_read:
            self._block(gang, None, now)
            self._look.add(now + INVENTORY_PATIENCE_S, gang.composition)
            return 0
        answer = None
        if self._plan.may_fit(gang.shapes, gang.need):
            answer = self._plan.place(gang)
        if isinstance(answer, Placed):
            self.queue.remove(gang)
            gang.tries, gang.shortage = 0, None
            effects.extend(self._books.binds.commit(gang, answer.records))
            self._settle(now)
            return len(answer.records)
        count(self._books.attempts.unschedulable, next(iter(gang.shapes))[0])
        if isinstance(answer, Forbidden):
            self._rest(gang, answer, now)
        else:
            self._block(gang, self._shortage(gang, now), now)
            self._repair.cannot_fit(gang, now, effects)
        return 0

    def nearer(self, record: Record, choice: Choice) -> Choice | str:
        """The place for a pod: if it is in a gang, near those that have theirs.

        A sentence if it must be where they are, and there is no room.
        """
        gang = self._books.gangs.of(record.pod.uid)
        return choice if gang is None else self._plan.near(gang, record, choice)

    def one_placed(self, shape: Shape, now: float) -> None:
        """A pod of this shape got a place: does it say which model others of its gang must have?"""
        if shape.claim is not None and shape.claim.one_model and self._books.gangs.touched:
            self._settle(now)

    # --- inside --------------------------------------------------------------------------------

    def _look_on(self, line: GangLine) -> None:
        """Ask about one more shape of the last line of the sweep; wake its gangs if they may fit.

        A change between two such questions begins a sweep of its own.
        """
        if self.queue.is_blocked(line):
            if self._looks is None:
                self._looks = self._plan.each_look(line.shapes, line.need)
            may_fit = True if line.shortage is None else next(self._looks, None)
            if may_fit is False:
                return  # there may be further shapes
            if may_fit:
                self._books.moves.woken(sum(len(gang.waiting) for gang in line.gangs))
                self.queue.wake(line)
        self._sweep.pop()
        self._looks = None

    def _fewest_last(self) -> list[GangLine]:
        """Lines of blocked gangs, those of namespaces with few of them at the end."""
        lines = self.queue.lines()
        counts = Counter(line.owner for line in lines)
        return sorted(lines, key=lambda line: (-counts[line.owner], line.owner))

    def _settle(self, now: float) -> None:
        for gang in self._books.gangs.take_touched():
            self._repair.note(gang, now)
            self._books.earmarks.changed(gang)
            if gang.is_divided:
                self._leave(gang)  # it is looked at again when its members are whole
                continue
            if fix_models(gang) and gang.lined_by is not None:
                self._leave_lines(gang)
            if gang.together:
                self._gather(gang, now)
            else:
                self._disperse(gang)
            self.kept_out.changed(gang)

    def _gather(self, gang: Gang, now: float) -> None:
        """The gang is tried as soon as there are enough of them."""
        if gang.lined_by is not None:
            self._leave_lines(gang)
        if len(gang.waiting) < gang.need or gang.rests_until > now:
            self._leave(gang)
            if len(gang.waiting) < gang.need:
                self.reports.incomplete(gang, now)
            return
        if len(gang.shapes) > MOST_SHAPES:
            self._leave(gang)
            self.reports.tell(gang, too_varied(gang, MOST_SHAPES))
            return
        gang.key = self._key(gang)
        earmarks = self._books.earmarks
        self.queue.put(gang, alone=earmarks.is_preemptor(gang))
        line = self.queue.line_of(gang)
        if (
            line is not None
            and earmarks
            and earmarks.takes_precedence(contender_of(gang, self._books.records))
        ):
            self.queue.wake(line)
        self._tell_joined(now)

    def _leave_lines(self, gang: Gang) -> None:
        """Its members do not wait each for itself, or not where they did."""
        for uid in gang.waiting:
            self._books.queue.remove(uid)
            self._books.earmarks.end(uid)
            gang.untold[uid] = None
        gang.lined_by = None

    def _key(self, gang: Gang) -> SortKey:
        """It stands where the last of those that it needs would stand."""
        for record in gang.waiting.values():
            if not record.key or gang.keyed_by != gang.first:
                record.key = self._books.intake.key(record, gang)
        gang.keyed_by = gang.first
        last = sorted(gang.waiting.values(), key=lambda record: record.key)[gang.need - 1]
        return self._books.intake.gang_key(last, gang)

    def _disperse(self, gang: Gang) -> None:
        """From now on each member waits for itself."""
        self._leave(gang)
        if gang.lined_by != gang.first:
            for uid, record in gang.waiting.items():
                self._books.queue.remove(uid)
                self._books.intake.join_line(record, gang, queue_moves.FORCE_ACTIVATE)
            gang.lined_by = gang.first
            gang.untold.clear()
            gang.diagnosis = None

    def _leave(self, gang: Gang) -> None:
        """The gang does not wait for room."""
        self.queue.remove(gang)
        self._books.earmarks.end(gang)
        gang.short_since = None

    def _block(self, gang: Gang, shortage: Shortage | None, now: float) -> None:
        self._books.moves.entered(
            queue_moves.UNSCHEDULABLE, queue_moves.ATTEMPT_FAILURE, len(gang.waiting)
        )
        self.queue.block(gang).shortage = shortage
        self._tell_joined(now)

    def _tell_joined(self, now: float) -> None:
        for gang in self.queue.joined:
            self.newcomers[gang] = None
            line = self.queue.line_of(gang)
            if line is not None and line.shortage is not None:
                if gang.short_since is None:
                    gang.short_since = now
                self.reports.short(gang, line.shortage)
        self.queue.joined.clear()

    def _shortage(self, gang: Gang, now: float) -> Shortage:
        """What is missing: worked out now, or some seconds ago, since that takes a while."""
        composition = gang.composition
        known = self._known.get(composition)
        wait_s = max(SAME_REASONS_S, len(gang.waiting) / PODS_A_SECOND)
        if known is not None and now < known.found_at + wait_s:
            gang.shortage, gang.short_at = known.shortage, known.found_at
        if gang.shortage is not None and now < gang.short_at + wait_s:
            self._look.add(gang.short_at + wait_s, composition)
            return gang.shortage
        shortage = gang.shortage = self._plan.shortage(gang)
        gang.short_at = now
        self._known[composition] = _Known(
            shortage, now, self._books.ledger.changed.end, weight_of(composition)
        )
        kept = sum(known.weight for known in self._known.values())
        while len(self._known) > SHORTAGES_KEPT or (kept > MOST_BYTES and len(self._known) > 1):
            kept -= self._known.popitem(last=False)[1].weight
        self._look.add(now + max(UNASKED_S, wait_s), composition)
        return shortage

    def _rest(self, gang: Gang, refusal: Forbidden, now: float) -> None:
        """A plugin does not permit a place: the gang is tried again after a while."""
        member = refusal.record.pod.key.name
        sentence = f'pod group "{gang.title}": no place for {member}: {refusal.sentence}'
        self.reports.tell(gang, Diagnosis(sentence=sentence))
        self._leave(gang)
        gang.tries += 1
        gang.rests_until = now + backoff_s(gang.tries)
        self._rested.add(gang.rests_until, gang)
        self._books.moves.entered(
            queue_moves.BACKOFF, queue_moves.ATTEMPT_FAILURE, len(gang.waiting)
        )
