"""Any history with reservations, failing plugins and replaced profiles: what a contender is shown
is what a scheduler that knows nothing yet would find without the reservations open to it."""

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.events import Event, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import HostPort, Pod, Shape
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import Depends, RowFilter
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.framework.snapshot import Headroom, Snapshot
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.reservations import Contender, Nominee, Reservation, contender_of
from kubeshare_py.scheduling.reservation_policy import ReservationRules
from tests.making import a_pod, a_shape
from tests.making.world import Step
from tests.scale import seeds
from tests.scheduling.pod_groups.test_any_gang_history import some_gang_steps
from tests.scheduling.test_any_reservation_history import (
    AFTER_S,
    ReservationReference,
    ReservationWorld,
)


class Fickle:
    """Lets every node through, and fails for some shapes while it is told to."""

    name = "Fickle"
    depends = Depends.ROW

    def __init__(self) -> None:
        self.fails = False

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        def ask(rows: Rows) -> IntArray:
            if self.fails and shape.claim is not None and shape.claim.milli != 1000:
                raise ValueError("it is Monday")
            return rows.unschedulable * 0

        return ask


class UnorderedReference(ReservationReference):
    """Pods for which a plugin fails are overtaken."""

    def _check_turn(self, pod: Pod, decided: set[str]) -> None:
        return


class SnapshotWorld(ReservationWorld):
    """A world in which what contenders are shown is checked after each event."""

    fickle: Fickle
    compared = failed = 0

    def begin_anew(self) -> None:
        super().begin_anew()
        self.reference = UnorderedReference()
        self.reference.before = self.reference.after = {}
        self.fickle = Fickle()
        rules = ReservationRules(AFTER_S, 0.0)
        self.machine = Machine(self.profiles(0), f"test-{self.count}", reservations=rules)

    def profiles(self, number: int) -> tuple[Profile, ...]:
        """Other scores for other numbers."""
        score = {"disabled": [{"name": "*"}], "enabled": [{"name": ("BinPack", "Spread")[number]}]}
        plugins = {
            "filter": {"enabled": [{"name": "Fickle"}]},
            "postFilter": {"disabled": [{"name": "*"}]},
            "score": score,
            "cardScore": score,
        }
        document = read({"profiles": [{"plugins": plugins}]})
        return profiles(document, {**IN_TREE, "Fickle": lambda: self.fickle})

    def step(self, step: Step) -> None:
        action, which, how = step
        self.fickle.fails = (which + how) % 3 == 0
        if action % 11 == 0 and how % 3 == 0:
            effects = self.machine.handle(ProfilesReplaced(self.profiles(which % 2)), self.now)
            self.reference.effects(effects)
        super().step(step)

    def tell(self, event: Event) -> None:
        super().tell(event)
        if self.machine.reservations and not self.machine.ledger.lingering:
            nominees: dict[Nominee, None] = {}
            for record in self.reference.waiting():
                gang = self.machine.gangs.of(record.uid)
                quorum = gang is not None and gang.needs_quorum
                if gang is None or not quorum or len(gang.waiting) >= gang.need:
                    nominees[gang if gang is not None and quorum else record.uid] = None
            for nominee in nominees:
                if isinstance(nominee, Gang) or nominee in self.machine.records:
                    self.check_contender(nominee)
            self.machine.reservations.show_without_any()
            self.check_shown_without(self.machine.reservations.holders)
            self.machine.reservations.show_with_all()

    def check_contender(self, nominee: Nominee) -> None:
        """Show what it may take, and compare."""
        reservations = self.machine.reservations
        contender: Contender = contender_of(nominee, self.machine.records)
        if reservations.show_as_seen_by(contender) is None:
            self.check_shown_without(
                [one for one in reservations.holders if one.is_open_to(contender)]
            )

    def check_shown_without(self, found: list[Reservation]) -> None:
        """The answers of the snapshot that is shown, by node, are those of a new evaluator."""
        ledger = self.machine.ledger
        fresh = Ledger()
        for node in ledger.columns.nodes:
            if node is not None:
                fresh.put_node(node)
        for name, gpus in ledger.inventory.items():
            fresh.put_cards(name, gpus)
        for name in ledger.columns.row_of:
            for uid, charge in ledger.pods_on(name).items():
                fresh.charge(uid, name, charge.resources, charge.allocation, charge.pod)
        left_out = {uid for one in found for uid in (*one.uids, *one.beside)}
        for uid, charge in ledger.reservations.items():
            if uid not in left_out:
                fresh.reserve(uid, charge.node, charge.resources, charge.allocation)
        anew = Evaluator(self.machine.profiles[SCHEDULER_NAME], fresh)
        rooms = Headroom(fresh, anew)
        shown: Snapshot = self.machine.snapshots.shown
        asked = shown.evaluators[SCHEDULER_NAME]
        for shape in {record.shape: None for record in self.machine.records.values()}:
            fails = self.fickle.fails
            keys = by_node(ledger, asked.row_scores(shape))
            self.fickle.fails = False
            if shape in self.machine.evaluators[SCHEDULER_NAME].failed:
                assert all(key < 0 for key in keys.values())
                self.failed += 1
                self.fickle.fails = fails
                continue
            masks, expected = by_node(ledger, asked.masks(shape)), by_node(fresh, anew.masks(shape))
            assert {name: mask == 0 for name, mask in masks.items()} == {
                name: mask == 0 for name, mask in expected.items()
            }
            points = by_node(fresh, anew.row_scores(shape))
            assert {name: key for name, key in keys.items() if key >= 0} == {
                name: key for name, key in points.items() if key >= 0
            }
            found_rooms = by_node(ledger, shown.rooms[SCHEDULER_NAME].rows(shape))
            assert found_rooms == by_node(fresh, rooms.rows(shape))
            self.compared += 1
            self.fickle.fails = fails


def by_node(ledger: Ledger, rows: IntArray) -> dict[NodeName, int]:
    """Numbers of rows, (rows,) int64, by node."""
    columns = ledger.columns
    shown = {name: row for name, row in columns.row_of.items() if columns.nodes[row] is not None}
    return {name: rows.item(row) for name, row in shown.items()}


def expect_right_snapshots(seed: int) -> SnapshotWorld:
    """After each event of this history; the world that went through it."""
    return SnapshotWorld().follow(some_gang_steps(seed, 80))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20, first=1))
def test_what_is_shown_is_what_a_new_evaluator_finds(seed: int) -> None:
    expect_right_snapshots(seed)


def test_a_new_evaluator_finds_the_host_ports_of_placed_pods_held() -> None:
    """The long tier met a port that the snapshot showed as held, and a new evaluator as free."""
    shape = a_shape(host_ports=(HostPort(80),))
    world = SnapshotWorld()
    world.start()
    world.tell(PodSeen(a_pod("there", shape, node_name=NodeName("n1"))))
    world.tell(PodSeen(a_pod("waits", shape)))
    world.check_shown_without([])
    assert world.compared


@pytest.mark.long
def test_such_histories_have_reservations_and_failures() -> None:
    world = expect_right_snapshots(0)
    assert world.compared > 100
    assert world.failed > 100
