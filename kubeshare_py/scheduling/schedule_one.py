"""One turn of decisions: whoever stands first in the queue is tried first, gangs and pods alike."""

from kubeshare_py.domain.effects import Effect
from kubeshare_py.framework.asks import Choice
from kubeshare_py.scheduling.binding.books import Books
from kubeshare_py.scheduling.binding.intake import tell
from kubeshare_py.scheduling.plugin_retries import PluginRetries
from kubeshare_py.scheduling.pod_groups.gang_turns import GangTurns
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.attempts import count
from kubeshare_py.scheduling.queue.earmarks import Holder, Nominee, contender_of
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import Line, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.reservations.starvation import Starvation


class Turns:
    """Works on the machine's books."""

    def __init__(
        self,
        books: Books,
        gang_turns: GangTurns,
        starvation: Starvation,
        preemption: Preemption,
        retries: PluginRetries,
    ) -> None:
        self._books = books
        self._gang_turns = gang_turns
        self._starvation = starvation
        self._preemption = preemption
        self._retries = retries
        self._capacities = 0
        self._inventory_read = False
        #: Whether the last turn left no time for preemption, which had something to do.
        self._owes_search = False

    @property
    def unfinished(self) -> bool:
        """Whether a turn would find something to do without any further event."""
        return (
            self._books.cycle.unfinished
            or self._gang_turns.unfinished
            or self._starvation.is_due
            or self._retries.is_due
            or (self._inventory_read and self._preemption.is_due)
            or self._preemption.resumes(cards_known=self._inventory_read)
            or (bool(self._books.earmarks) and self._capacities != self._books.ledger.capacities)
        )

    def run(self, free: int, known: tuple[bool, bool], now: float, effects: list[Effect]) -> None:
        """Make at most `free` placements, or those of one gang.

        `known`: whether pods and nodes are known, and cards.

        Between turns all earmarks are laid.
        """
        earmarks, cycle = self._books.earmarks, self._books.cycle
        ready, self._inventory_read = known
        self._retries.look(now)
        self._preemption.turn_begins(now)
        if earmarks:
            self._begin(now)
        is_long = self._gang_turns.sweeps
        cycle.begin_turn(self._gang_turns.kept_out.among, is_long=is_long)
        gangs = ready and bool(self._books.gangs.by_key)
        if gangs:
            self._gang_turns.begin_turn(now, self._inventory_read)
            if self._gang_turns.sweeps and not is_long:
                free = 0  # as while the lines of pods are looked at
        if ready and not self._preemption.resumed(now, effects, cards_known=self._inventory_read):
            free = 0
        self._try_all(free, gangs, now, effects)
        if ready and self._inventory_read:
            self._search(now, effects)
        self._finish(now)

    # --- inside --------------------------------------------------------------------------------

    def _try_all(self, free: int, gangs: bool, now: float, effects: list[Effect]) -> None:
        """Try gangs and pods in queue order, as far as this turn may."""
        most, earmarks = free, self._books.earmarks
        while free > 0 and self._books.cycle.may_go_on(most_of_it=self._owes_search):
            first = self._first(gangs, now)
            if first is None:
                if self._new_round():
                    continue
                break
            _, who = first
            if earmarks and self._must_wait(who):
                continue
            if isinstance(who, Gang) and who.need > free and free < most:
                break  # it gets a turn of its own
            free -= self._try(who, now, effects)

    def _search(self, now: float, effects: list[Effect]) -> None:
        """Preemption's part of the turn; in the next one if tries took more than half of this."""
        cycle = self._books.cycle
        if cycle.may_go_on(most_of_it=True) or (self._owes_search and cycle.is_open):
            self._owes_search = False
            self._preemption.turn(now, effects)
        else:
            self._owes_search = self._preemption.is_due

    def _new_round(self) -> bool:
        """All namespaces may try pods again; False if none waits for that."""
        if not self._books.shares.new_round():
            return False
        self._books.queue.let_on()
        self._gang_turns.queue.let_on()
        return True

    def _try(self, who: Gang | Line, now: float, effects: list[Effect]) -> int:
        """How many Binds it makes; what it cost counts toward the namespace's share."""
        cycle, owner = self._books.cycle, who.owner
        before = cycle.cost
        if isinstance(who, Line):
            sent = self._decide(who, now, effects)
        else:
            is_ready = self._gang_turns.is_prepared(who)
            sent = self._decide_gang(who, now, effects) if is_ready else 0
        self._books.shares.spend(owner, cycle.cost - before, placed=sent)
        return sent

    def _finish(self, now: float) -> None:
        """Lay all earmarks, and give some to who needs them."""
        earmarks = self._books.earmarks
        for holder in earmarks.lay() if earmarks else ():
            self._wake(holder)
        self._starvation.look(now)
        self._retries.look(now)
        if earmarks:
            self._gang_turns.turn_ends(now)

    def _first(self, gangs: bool, now: float) -> tuple[SortKey, Gang | Line] | None:
        """Who is tried next: the first of a line, or a gang, if there are any."""
        line = self._books.queue.next_line()
        head = line.head() if line is not None else None
        gang = self._gang_turns.first(now) if gangs else None
        if gang is not None and (head is None or gang[0] < head[0]):
            return gang
        return None if line is None or head is None else (head[0], line)

    def _decide_gang(self, gang: Gang, now: float, effects: list[Effect]) -> int:
        sent = self._gang_turns.decide(gang, now, effects)
        if not sent:
            self._starvation.gang_waits(gang, now)
        return sent

    def _decide(self, line: Line, now: float, effects: list[Effect]) -> int:
        """Place the first pod of a line, or block the line; how many Binds that makes."""
        head = line.head()
        assert head is not None
        record = self._books.records[head[1]]
        record.attempts += 1
        if line.shape.claim is not None and not self._inventory_read:
            self._block(line)
            self._books.reports.unread(line, now)
            return 0
        asker = self._books.askers[line.profile]
        choice: Choice | str | None = asker.best(line.shape)
        if isinstance(choice, Choice) and self._books.gangs.by_key:
            choice = self._gang_turns.nearer(record, choice)
        if not isinstance(choice, Choice):
            self._does_not_fit(line, record, choice, now)
            return 0
        refusal = self._books.cycle.place(record, choice)
        if refusal is not None:
            effects.extend(self._refused(record, refusal, now))
            return 0
        effects.extend(self._books.binds.commit(record.pod.uid, [record]))
        self._gang_turns.one_placed(line.shape, now)
        return 1

    def _refused(self, record: Record, refusal: str, now: float) -> list[Effect]:
        """A plugin or the ledger refuses the place: the pod is tried again after a while.

        It keeps its earmarks only if other pods were evicted for it.
        """
        uid, earmarks = record.pod.uid, self._books.earmarks
        if not earmarks.is_preemptor(uid):
            earmarks.end(uid)
        count(self._books.attempts.unschedulable, record.pod.scheduler_name)
        effects = tell(record, refusal)
        self._books.intake.back_off(record, now)
        return effects

    def _does_not_fit(self, line: Line, record: Record, why: str | None, now: float) -> None:
        """The first of a line waits, and so do the others; `why`: if not for want of any room."""
        self._block(line)
        self._gang_turns.kept_out.blocked(line, record)
        if why is None:
            self._books.reports.blocked(line, self._books.askers[line.profile], now)
            self._preemption.queue.blocked(line)
        else:
            self._books.reports.kept_out(line, why, now)
        self._starvation.pod_waits(record, now)

    def _block(self, line: Line) -> None:
        count(self._books.attempts.unschedulable, line.profile)
        self._books.moves.entered(
            queue_moves.UNSCHEDULABLE, queue_moves.ATTEMPT_FAILURE, len(line.waiting)
        )
        self._books.queue.block(line)

    def _begin(self, now: float) -> None:
        """What became of earmarks; blocked lines are looked at as if there were none."""
        earmarks, capacities = self._books.earmarks, self._books.ledger.capacities
        if capacities != self._capacities:
            self._capacities = capacities
            for holder in earmarks.outdated():
                self._wake(holder)
        if self._books.cycle.sweeps:
            outgrown = self._starvation.outgrown(now)
            if outgrown is not None:
                self._wake(outgrown)
            earmarks.lift()

    def _must_wait(self, who: Gang | Line) -> bool:
        """Show the cluster as it may see it; True if another is to be tried first."""
        nominee: Nominee
        if isinstance(who, Line):
            head = who.head()
            assert head is not None
            nominee = head[1]
        else:
            nominee = who
        holder = self._books.earmarks.show_to(contender_of(nominee, self._books.records))
        if holder is not None:
            self._wake(holder)
        return holder is not None

    def _wake(self, holder: Holder) -> None:
        """The holder is tried again."""
        nominee = holder.nominee
        if isinstance(nominee, Gang):
            gangs = self._gang_turns.queue
            line = gangs.line_of(nominee)
            if line is not None:
                self._books.moves.woken(sum(len(gang.waiting) for gang in line.gangs))
                gangs.wake(line)
        else:
            pods = self._books.queue.line_of(nominee)
            if pods is not None and pods.blocked:
                self._books.moves.woken(len(pods.waiting))
                self._books.queue.wake(pods)
