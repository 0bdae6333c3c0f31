"""One placement: wake who may fit, choose, charge. And how much of that one turn may do."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.refusal import NO_SUCH_CARD, REFUSES
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, NodeName
from kubeshare_py.domain.isolation import Isolation, IsolationBackend
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.asks import Asker, Choice, Work
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.scheduling.pod_queue import Line, PodQueue
from kubeshare_py.scheduling.pod_records import Record, State
from kubeshare_py.scheduling.queue_moves import QueueMoves

# Bounds of one turn, so that the loop is never held for more than about 20 ms: what is asked anew,
# in rows (about 0.4 us each), and blocked lines looked at (about 4 us each).
ROWS_A_TURN = 25_000
LINES_A_TURN = 2_000
# More improved rows than this, and every blocked line is simply tried again.
ROWS_WORTH_SWEEPING = 256


class Cycle:
    """Works on the machine's books; holds only how far the sweep for wakeable lines has come."""

    def __init__(
        self,
        ledger: Ledger,
        queue: PodQueue,
        moves: QueueMoves,
        askers: Mapping[str, Asker],
        calls: PluginCalls,
        work: Work,
        name: str,
    ) -> None:
        self._work = work
        self._calls = calls
        self._ledger = ledger
        self._queue = queue
        self._moves = moves
        self._askers = askers
        self._profiles = calls.profiles
        self._name = name
        self._decisions = 0
        self._swept = 0
        self._sweep_rows: IntArray = np.zeros(0, np.int64)
        self._sweep_lines: list[Line] = []
        self._cost_before = 0

    @property
    def unfinished(self) -> bool:
        """Whether a turn would find something to do without any further event."""
        return self.sweeps or self._queue.next_line() is not None

    @property
    def sweeps(self) -> bool:
        """Whether the next turn begins with looking at blocked lines."""
        return bool(self._sweep_lines) or self._swept != self._ledger.improved.end

    def begin_turn(self, among: Callable[[Line, IntArray], IntArray]) -> None:
        """Wake the blocked lines that improved rows may help.

        `among` says which rows are of use to a line that is tied to a place.

        A line that was blocked after the rows improved has seen them already: the sweep need only
        cover what came since the last one. Nothing is decided before a sweep is complete, so that
        a pod that waits longer is not overtaken by one that was merely looked at first.
        """
        self._cost_before = self._work.cost
        if not self._sweep_lines:
            self._start_sweep()
        for _ in range(min(LINES_A_TURN, len(self._sweep_lines))):
            line = self._sweep_lines.pop()
            if line.blocked and self._may_help(line, among):
                self._wake(line)
            if not self._has_budget():
                break

    def may_go_on(self) -> bool:
        """Whether this turn may decide (further)."""
        return not self._sweep_lines and self._has_budget()

    def _has_budget(self) -> bool:
        return self._work.cost - self._cost_before < ROWS_A_TURN

    def place(self, record: Record, choice: Choice) -> str | None:
        """Charge the pod to its place.

        A sentence instead when a plugin does not permit it, or the ledger refuses because it takes
        more than is free: then the profile's plugins are not relied on for that any more.
        """
        pod, columns = record.pod, self._ledger.columns
        node = columns.names[choice.row]
        assert node is not None
        refusal = self._calls.permit(pod, node)
        if refusal is not None:
            return refusal
        allocation = self._allocation(record, choice, node)
        lack: str | None = NO_SUCH_CARD
        if allocation is not None:
            resources, port = pod.shape.resources, record.shape.needs_port
            lack = self._ledger.refusal(node, resources, allocation, port=port)
        if lack is not None:
            self._askers[pod.scheduler_name].mind_the_ledger()
            return f"{REFUSES}{lack}"
        problem = self.charge(record, node, allocation)
        if problem is not None:
            self.take_back(record)
            return problem
        record.state = State.BINDING
        return None

    def charge(self, record: Record, node: NodeName, allocation: Allocation | None) -> str | None:
        """The pod holds this now; plugins are told if it is one of ours.

        It does even if one of them fails; what that failed with.
        """
        pod = record.pod
        self._ledger.charge(pod.uid, node, pod.shape.resources, allocation)
        record.node, record.allocation = node, allocation
        return self._calls.reserve(pod, node, allocation)

    def release(self, record: Record) -> None:
        """What `charge` did is undone; the record must be charged."""
        pod, node = record.pod, record.node
        assert node is not None
        self._ledger.release(pod.uid)
        record.node = record.allocation = None
        self._calls.unreserve(pod, node)

    def linger(self, record: Record) -> bool:
        """As `release`, but GPUs that it holds stay charged: its containers may still run.

        False if it holds none.
        """
        pod, node = record.pod, record.node
        assert node is not None
        lingers = self._ledger.linger(pod.uid)
        self._calls.unreserve(pod, node)
        return lingers

    def take_back(self, record: Record) -> None:
        """What `place` did is undone, as if it had never been."""
        pod, node = record.pod, record.node
        assert node is not None
        self._ledger.take_back(pod.uid)
        record.node = record.allocation = None
        record.state = State.WAITING
        self._calls.unreserve(pod, node)

    def _allocation(self, record: Record, choice: Choice, node: NodeName) -> Allocation | None:
        """What the pod is to hold; None if a plugin chose a slot that no card is in."""
        if choice.slots and max(choice.slots) >= len(self._ledger.columns.uuids[choice.row]):
            return None
        self._decisions += 1
        pod = record.pod
        shape, group = record.shape, pod.group
        claim = shape.claim
        cards = self._card_charges(claim, choice) if claim is not None else ()
        return Allocation(
            token=DecisionToken(f"{self._name}-{self._decisions}"),
            dialect=pod.request.dialect if pod.request else "",
            cards=cards,
            exclusive=claim is not None and claim.exclusive,
            port=self._ledger.next_port(node) if shape.needs_port else None,
            group=group.name if group else None,
            min_available=group.min_available if group else 0,
            isolation=self._isolation(pod, cards),
        )

    def _isolation(self, pod: Pod, cards: Sequence[CardCharge]) -> Isolation | None:
        """What holds it to its share; cards of its own need nothing, `none` says nothing."""
        if pod.request is None or pod.request.claim.exclusive:
            return None
        profile = self._profiles[pod.scheduler_name]
        backend = profile.isolation.chosen(pod.isolation)
        if backend is IsolationBackend.NONE:
            return None
        limit, share_of = pod.request.limit_milli, pod.request.claim.share_of
        if share_of:
            limit = profile.capacities.limit(limit, share_of, cards[0].model)
        return Isolation(backend, limit)

    def _card_charges(self, claim: GpuClaim, choice: Choice) -> tuple[CardCharge, ...]:
        columns, row, milli = self._ledger.columns, choice.row, claim.milli
        scaled = bool(claim.share_of)
        uuids, names = columns.uuids[row], columns.model_names
        cells = self._ledger.cells_on(row)
        charges = []
        for slot in choice.slots:
            model = names[columns.model.item(row, slot)]
            if scaled:
                milli = claim.milli_on(model)
            memory = claim.bytes_of(columns.capacity_bytes.item(row, slot), model)
            cell = cells.get(uuids[slot], "") if cells else ""
            charges.append(CardCharge(uuids[slot], milli, memory, model, cell))
        return tuple(charges)

    def _start_sweep(self) -> None:
        improved = self._ledger.improved
        if self._swept == improved.end:
            return
        rows = improved.since(self._swept, ROWS_WORTH_SWEEPING)
        self._swept = improved.end
        if rows is None:
            for line in self._queue.blocked():
                self._wake(line)
        else:
            self._sweep_lines = self._queue.blocked()
            self._sweep_rows = np.unique(rows) if self._sweep_lines else rows

    def _wake(self, line: Line) -> None:
        self._moves.woken(len(line.waiting))
        self._queue.wake(line)

    def _may_help(self, line: Line, among: Callable[[Line, IntArray], IntArray]) -> bool:
        asker = self._askers[line.profile]
        improved = self._sweep_rows if line.place_of is None else among(line, self._sweep_rows)
        rows = [row for row in improved.tolist() if asker.may_fit(line.shape, row)]
        return bool(rows) and asker.fits_any(line.shape, np.array(rows))
