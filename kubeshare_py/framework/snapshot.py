"""What is asked about the cluster: its tables, and what each profile answers about them."""

from collections.abc import Mapping, Sequence

from kubeshare_py.cluster.charge import Charge, tentative_charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.cluster.pods.pods_overlay import PodsOverlay
from kubeshare_py.cluster.refusal import NO_SUCH_CARD, refusal
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.cluster.tables import Tables
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.headroom import Headroom
from kubeshare_py.framework.overlay_evaluator import OverlayEvaluator, OverlayHeadroom


class Snapshot:
    """One set of tables, with an evaluator and headrooms for each profile."""

    def __init__(
        self,
        ledger: Ledger,
        tables: Tables,
        evaluators: Mapping[str, Evaluator],
        rooms: Mapping[str, Headroom] | None = None,
    ) -> None:
        self.ledger = ledger
        self.tables = tables
        self.evaluators = evaluators
        self.rooms = rooms or {
            name: Headroom(ledger, evaluator) for name, evaluator in evaluators.items()
        }
        self._trial: Trial | None = None

    def follow(self) -> None:
        """Show the cluster as it is now; the ledger's own tables always do."""

    def trial(self) -> "Trial":
        """This snapshot, to try places in; the trial before it ends."""
        if self._trial is None:
            self._trial = Trial(self)
        self._trial.begin()
        return self._trial


class OverlaySnapshot(Snapshot):
    """A snapshot above another: nothing of it enters the one below, its caches or the ledger."""

    def __init__(self, below: Snapshot) -> None:
        ledger, overlay = below.ledger, Overlay(below.tables)
        evaluators = {
            name: OverlayEvaluator(ledger, overlay, evaluator)
            for name, evaluator in below.evaluators.items()
        }
        rooms = {
            name: OverlayHeadroom(ledger, overlay, evaluators[name], room)
            for name, room in below.rooms.items()
        }
        super().__init__(ledger, overlay, evaluators, {**rooms})
        self._overlay = overlay
        self._caches: list[OverlayEvaluator | OverlayHeadroom] = [
            *evaluators.values(),
            *rooms.values(),
        ]


class WithoutReservations(OverlaySnapshot):
    """The cluster without some reservations; answers are kept while others are left out."""

    def follow(self) -> None:
        """Show the cluster as it is now, without these reservations."""
        self._overlay.follow()

    def leave_out(self, reservations: Mapping[int, Sequence[Charge]]) -> None:
        """Leave these reservations out from the next `follow` on, by row."""
        self._overlay.leave_out(reservations)


class Trial(OverlaySnapshot):
    """A snapshot in which pods are placed and removed."""

    def begin(self) -> None:
        """Be like the one below again."""
        self._overlay.follow()
        for cache in self._caches:
            cache.start_anew()

    def charge_at(self, choice: Choice, shape: Shape, pod: PlacedPod | None = None) -> Charge:
        """What a pod of this shape would hold at its place, with what others would see of it."""
        columns, row, slots = self._overlay.columns, choice.row, choice.slots
        if any(slot >= len(columns.uuids[row]) for slot in slots):
            # A plugin took an empty slot for a card: the ledger refuses that place later.
            slots = tuple(slot for slot in slots if slot < len(columns.uuids[row]))
        if pod is not None and pod.volumes is not None:
            pod = OneRow(columns, row).volumes.with_choice(pod)
        return tentative_charge(columns, row, slots, shape, self.ledger.cells_on(row), pod)

    @property
    def pods(self) -> PodsOverlay:
        """The placed pods, with those that are tried."""
        return self._overlay.pods

    def place(self, choice: Choice, charge: Charge) -> None:
        """Add a pod at its place, unless that has an empty slot in place of a card."""
        cards = charge.allocation.cards if charge.allocation is not None else ()
        slots = tuple(dict.fromkeys(choice.slots))  # several claims may share a card
        if len(cards) == len(slots):
            self._overlay.place(choice.row, charge, slots)

    def refusal(self, choice: Choice, charge: Charge) -> str | None:
        """Why the ledger would not take this charge now; None if all of it is free."""
        allocation, columns = charge.allocation, self._overlay.columns
        if allocation is not None and len(allocation.cards) < len({*choice.slots}):
            return NO_SUCH_CARD
        port = allocation is not None and allocation.port is not None
        return refusal(columns, choice.row, charge.resources, allocation, port)

    def remove(self, charge: Charge) -> None:
        """Remove what a pod holds."""
        row = self._overlay.columns.row_of.get(charge.node)
        if row is not None:
            self._overlay.remove(row, charge)


class Snapshots:
    """The cluster as it is, and as the pod or gang that is tried now may see it."""

    def __init__(self, actual: Snapshot) -> None:
        self.actual = self.shown = actual

    def replace(self, actual: Snapshot) -> None:
        """Show the cluster by other evaluators."""
        self.actual = self.shown = actual
