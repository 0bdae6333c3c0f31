"""A trial shows what is placed in it, and nothing of that shows below."""

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.profiles_in_use import ProfilesInUse
from kubeshare_py.framework.snapshot import Snapshot
from tests.builders import a_claim, a_gpu, a_node, a_shape

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


def test_what_is_full_is_refused() -> None:
    snapshot = a_snapshot()
    trial = snapshot.trial()
    choice = Choice(snapshot.ledger.columns.row_of[N1], (0,))
    charge = trial.charge_at(choice, SHAPE)
    assert trial.refusal(choice, charge) is None
    trial.place(choice, charge)
    assert trial.refusal(choice, charge) == "GPU a has too little share left"
