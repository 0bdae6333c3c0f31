"""A trial shows what is placed in it, and nothing of that shows below."""

import random

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.events import Bound, NodeGone, PodGone
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.snapshot import Headroom, ProfilesInUse, Snapshot
from tests.making import GIB, Driver, a_claim, a_gpu, a_node, a_pod, a_shape, whole
from tests.scale import seeds

N1 = NodeName("n1")
SHAPE = a_shape(a_claim(600))


def a_snapshot() -> Snapshot:
    """One node with two cards, beside one with three: so the tables have an empty slot."""
    ledger = Ledger()
    for name, cards in (("n1", "ab"), ("n2", "cde")):
        ledger.put_node(a_node(name))
        ledger.put_cards(NodeName(name), tuple(a_gpu(card) for card in cards))
    return ProfilesInUse(profiles(read(None), IN_TREE), ledger).snapshots.actual


def test_each_placement_leaves_less_room_for_the_next() -> None:
    snapshot = a_snapshot()
    trial, places = snapshot.trial(), 0
    while (choice := trial.evaluators[SCHEDULER_NAME].best(SHAPE)) is not None:
        trial.place(choice, trial.charge_at(choice, SHAPE))
        places += 1
    assert places == 5
    assert snapshot.rooms[SCHEDULER_NAME].total(SHAPE) == 5


def test_claims_that_share_a_card_are_placed_too() -> None:
    snapshot = a_snapshot()
    trial, places = snapshot.trial(), 0
    shape = a_shape(a_claim(500), a_claim(400))
    while (choice := trial.evaluators[SCHEDULER_NAME].best(shape)) is not None:
        charge = trial.charge_at(choice, shape)
        assert trial.refusal(choice, charge) is None
        trial.place(choice, charge)
        places += 1
        assert places <= 5
    assert places == 5


def test_a_new_trial_begins_with_nothing_placed() -> None:
    snapshot = a_snapshot()
    trial = snapshot.trial()
    choice = trial.evaluators[SCHEDULER_NAME].best(SHAPE)
    assert choice is not None
    trial.place(choice, trial.charge_at(choice, SHAPE))
    assert trial.rooms[SCHEDULER_NAME].total(SHAPE) == 4
    assert snapshot.trial().rooms[SCHEDULER_NAME].total(SHAPE) == 5


def test_a_card_that_is_not_there_is_refused_and_changes_nothing() -> None:
    snapshot = a_snapshot()
    trial = snapshot.trial()
    choice = Choice(snapshot.ledger.columns.row_of[N1], (2,))
    charge = trial.charge_at(choice, SHAPE)
    trial.place(choice, charge)
    assert trial.refusal(choice, charge) == "there is no such GPU"
    assert trial.rooms[SCHEDULER_NAME].total(SHAPE) == 5


@pytest.mark.slow
def test_what_is_full_is_refused() -> None:
    snapshot = a_snapshot()
    trial = snapshot.trial()
    choice = Choice(snapshot.ledger.columns.row_of[N1], (0,))
    charge = trial.charge_at(choice, SHAPE)
    assert trial.refusal(choice, charge) is None
    trial.place(choice, charge)
    assert trial.refusal(choice, charge) == "GPU a has too little share left"


# --- How many pods of a shape fit at once, at the very most ---------------------------------------


SHAPES = (
    a_shape(a_claim(300)),
    a_shape(a_claim(1000)),
    a_shape(a_claim(0)),
    a_shape(a_claim(200, memory_bytes=15 * GIB)),
    a_shape(whole(2)),
    a_shape(a_claim(100), cpu=20_000),
    a_shape(cpu=30_000),
)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_bound_is_what_fits(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4, "n3": 0}, pods=12)
    for number in range(numbers.randrange(8)):
        for bind in driver.seen(a_pod(f"p{number}", numbers.choice(SHAPES))):
            driver.answer(bind, Bound())
    rooms = driver.machine.snapshots.actual.rooms[SCHEDULER_NAME]
    shape = numbers.choice(SHAPES)
    bound = rooms.total(shape)
    count = 0
    while binds := driver.seen(a_pod(f"fill-{count}", shape)):
        driver.answer(binds[0], Bound())
        count += 1
    assert bound == count


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_remembered_is_what_would_be_worked_out_anew(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4})
    machine = driver.machine
    known = machine.snapshots.actual.rooms[SCHEDULER_NAME]
    evaluator = machine.evaluators[SCHEDULER_NAME]
    for number in range(60):
        if numbers.random() < 0.5:
            driver.seen(a_pod(f"p{number}", numbers.choice(SHAPES)))
        else:
            driver.tell(PodGone(PodUid(f"uid-p{numbers.randrange(number + 1)}")))
        if number == 40:
            driver.tell(NodeGone(NodeName("n2")))
        shape = numbers.choice(SHAPES)
        anew = Headroom(machine.ledger, evaluator)
        assert known.total(shape) == anew.total(shape)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_bound_of_an_empty_cluster_is_what_fits_once_all_pods_ended(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4, "n3": 0}, pods=12)
    bounds = driver.machine.snapshots.actual.rooms[SCHEDULER_NAME]
    uids = []
    for number in range(numbers.randrange(1, 12)):
        pod = a_pod(f"p{number}", numbers.choice(SHAPES))
        uids.append(pod.uid)
        for bind in driver.seen(pod):
            driver.answer(bind, Bound())
    found = {shape: bounds.if_empty(shape).tolist() for shape in SHAPES}
    for uid in uids:
        driver.tell(PodGone(uid))
    assert found == {shape: bounds.rows(shape).tolist() for shape in SHAPES}
    driver.tell(NodeGone(NodeName("n2")))
    for shape in SHAPES:
        assert bounds.if_empty(shape).tolist() == bounds.rows(shape).tolist()
