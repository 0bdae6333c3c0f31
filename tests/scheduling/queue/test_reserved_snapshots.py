"""A pod sees places as free that it may take; the ledger counts them as reserved all the time."""

import numpy as np

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.snapshot import ProfilesInUse, Snapshot
from kubeshare_py.scheduling.queue.reservations import (
    MAX_KEPT,
    Contender,
    Reservation,
    ReservationCause,
    Reservations,
)
from tests.making import a_claim, a_gpu, a_node, a_pod, a_shape

N1 = NodeName("n1")
SHAPE = a_shape(a_claim(600))


class Cluster:
    """Two cards; a place on the first is reserved for a pod that has waited for long."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.put_node(a_node(N1))
        self.ledger.put_cards(N1, (a_gpu("a"), a_gpu("b")))
        self.in_use = ProfilesInUse(profiles(read(None), IN_TREE), self.ledger)
        self.reservations = Reservations(self.ledger, self.in_use.snapshots)
        self.holder = PodUid("holder")
        self.hold("a")

    def hold(self, card: str) -> None:
        """Keep this card for the holder."""
        cards = (CardCharge(GpuUuid(card), 1000, 0),)
        place = Charge(N1, (), Allocation(token=DecisionToken(""), cards=cards))
        reservation = self.reservations.of(self.holder) or Reservation(
            self.holder, (0, 1), "pod default/holder", ReservationCause.STARVES, 0.0
        )
        self.reservations.hold(reservation, {self.holder: place}, 0.0)

    def hold_for(self, arrived: int) -> None:
        """Keep 100 milli of the second card for another pod."""
        uid = PodUid(f"holder-{arrived}")
        cards = (CardCharge(GpuUuid("b"), 100, 0),)
        place = Charge(N1, (), Allocation(token=DecisionToken(""), cards=cards))
        one = Reservation(uid, (0, arrived), f"pod {uid}", ReservationCause.STARVES, 0.0)
        self.reservations.hold(one, {uid: place}, 0.0)

    def free_as_seen_by(self, arrived: int) -> list[int]:
        """The free milli of each card that a pod sees which arrived then."""
        uid = PodUid(f"pod-{arrived}")
        self.reservations.show_as_seen_by(Contender(uid, (0, arrived), [a_pod("p", SHAPE)]))
        columns = self.in_use.snapshots.shown.tables.columns
        free: list[int] = columns.free_milli[columns.row_of[N1]].tolist()
        return free


def test_a_pod_before_the_holder_sees_its_place_as_free() -> None:
    cluster = Cluster()
    assert cluster.free_as_seen_by(0) == [1000, 1000]
    assert cluster.free_as_seen_by(2) == [0, 1000]


def test_showing_changes_nothing_of_the_ledger() -> None:
    cluster = Cluster()
    ledger = cluster.ledger
    before = ledger.changed.end, ledger.improved.end, ledger.columns.free_milli.tolist()
    for arrived in (0, 2, 0):
        cluster.free_as_seen_by(arrived)
        evaluator = cluster.in_use.snapshots.shown.evaluators[SCHEDULER_NAME]
        assert evaluator.best(SHAPE) is not None
    cluster.reservations.show_with_all()
    assert (ledger.changed.end, ledger.improved.end, ledger.columns.free_milli.tolist()) == before


def test_a_kept_snapshot_follows_charges_and_reservations() -> None:
    cluster = Cluster()
    cluster.free_as_seen_by(0)
    cards = (CardCharge(GpuUuid("b"), 300, 0),)
    held = Allocation(token=DecisionToken("t"), cards=cards)
    cluster.ledger.charge(PodUid("other"), N1, (), held)
    assert cluster.free_as_seen_by(0) == [1000, 700]
    cluster.hold("b")
    assert cluster.free_as_seen_by(0) == [1000, 700]
    assert cluster.free_as_seen_by(2) == [1000, -300]


def test_answers_without_the_reservations_are_right_after_each_change() -> None:
    cluster = Cluster()
    for card in ("a", "b", "a"):
        cluster.hold(card)
        cluster.free_as_seen_by(0)
        shown = cluster.in_use.snapshots.shown
        assert (shown.evaluators[SCHEDULER_NAME].row_scores(SHAPE)[:1] >= 0).all()
        assert shown.rooms[SCHEDULER_NAME].total(SHAPE) == 2
        cluster.free_as_seen_by(2)
        assert cluster.in_use.snapshots.shown is cluster.in_use.snapshots.actual
        assert cluster.in_use.snapshots.actual.rooms[SCHEDULER_NAME].total(SHAPE) == 1


def test_a_pod_placed_on_an_open_place_breaks_the_reservation() -> None:
    cluster = Cluster()
    cluster.free_as_seen_by(0)
    cluster.reservations.break_on_cards(N1, {GpuUuid("a")})
    cluster.reservations.show_with_all()
    assert cluster.reservations.holders[0].uids, "showing alone loses nothing"
    lost = cluster.reservations.drop_lost_places()
    assert [reservation.name for reservation in lost] == ["pod default/holder"]
    assert np.array_equal(cluster.ledger.columns.reservations[0], [0, 0])


def test_few_snapshots_serve_however_many_sets_of_reservations() -> None:
    cluster = Cluster()
    for arrived in range(2, 9):
        cluster.hold_for(arrived)
    shown: dict[Snapshot, None] = {}
    for arrived in (*range(1, 9), *range(8, 0, -1)):
        assert cluster.free_as_seen_by(arrived) == [
            1000 * (arrived == 1),
            1000 - 100 * max(0, arrived - 2),
        ]
        snapshot = cluster.in_use.snapshots.shown
        shown[snapshot] = None
        assert isinstance(snapshot.tables, Overlay)
        profile = snapshot.evaluators[SCHEDULER_NAME].profile
        anew = Evaluator(profile, cluster.ledger, overlay=snapshot.tables)
        assert snapshot.evaluators[SCHEDULER_NAME].best(SHAPE) == anew.best(SHAPE)
    assert len(shown) == MAX_KEPT
