"""What a policy chooses after any history, beside the same choice made the plain way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from tests.cluster.history import History, Step
from tests.cluster.reference_model import Amounts
from tests.making import a_claim, a_shape, whole
from tests.scale import examples

CLAIMS = (
    a_claim(0),
    a_claim(300),
    a_claim(667),
    a_claim(1000),
    a_claim(100, memory_bytes=400),
    whole(1),
    whole(2),
    a_claim(300, count=2),
)
#: Mostly charges, so that nodes and cards stay and differ.
CHARGES = st.lists(
    st.tuples(
        st.sampled_from([4, 4, 4, 4, 7, 2]),
        st.integers(0, 3),
        st.integers(0, 11),
        st.integers(0, 6),
    ),
    min_size=5,
    max_size=40,
)
#: Higher is better: a card's rank; a node's score by its best card and its GPUs' use in percent.
Rank = Callable[[Amounts], int]
Points = Callable[[Amounts, int], int]
SHARES: dict[str, tuple[Rank, Points]] = {
    "BinPack": (
        lambda card: -card["headroom"],
        lambda card, used: (
            (1000 - card["headroom"]) // 20 + 50 if card["headroom"] < 1000 else used // 2
        ),
    ),
    "Spread": (
        lambda card: card["headroom"],
        lambda card, used: card["headroom"] * 8 // 100 + (100 - used) // 5,
    ),
    "LeastTenants": (lambda card: -card["tenants"], lambda card, used: 100 - card["tenants"]),
}
WHOLE: dict[str, Callable[[int], int]] = {
    "BinPack": lambda used: used,
    "Spread": lambda used: 100 - used,
    "LeastTenants": lambda used: 0,
}


def evaluator(policy: str, history: History) -> Evaluator:
    only: dict[str, Any] = {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]}
    document = {"profiles": [{"plugins": {"score": only, "cardScore": only}}]}
    (profile,) = profiles(read(document), IN_TREE)
    return Evaluator(profile, history.ledger)


def takes(card: Amounts, claim: GpuClaim) -> bool:
    if claim.exclusive:
        return card["idle"] == 1
    memory = claim.memory_bytes
    if memory is None:
        memory = card["share_bytes"] * claim.milli // 1000
    room = card["free_milli"] >= claim.milli and card["free_bytes"] >= memory
    return room and not card["flags"]


def plain_choice(
    policy: str, history: History, claim: GpuClaim, fitting: set[int]
) -> tuple[int, list[str]] | None:
    reference, rank = history.reference, SHARES[policy][0]
    best: tuple[int, int, list[str]] | None = None
    for name, row in sorted(history.ledger.columns.row_of.items(), key=lambda entry: entry[1]):
        cards = {uuid: reference.card(name, uuid) for uuid in reference.known(name)}
        ranked = sorted(
            (uuid for uuid, card in cards.items() if takes(card, claim)),
            key=lambda uuid: (-rank(cards[uuid]), uuid),
        )
        assert row not in fitting or len(ranked) >= claim.count
        if row not in fitting:
            continue
        used = reference.gpu_totals(name)[2]
        alone = claim.count == 1
        points = SHARES[policy][1](cards[ranked[0]], used) if alone else WHOLE[policy](used)
        if best is None or points > best[0]:
            best = (points, row, ranked[: claim.count])
    return None if best is None else best[1:]


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(SHARES))
@examples(120)
@given(steps=CHARGES, claims=st.lists(st.sampled_from(CLAIMS), min_size=40, max_size=40))
def test_the_best_node_and_card_are_chosen(
    policy: str, steps: list[Step], claims: list[GpuClaim]
) -> None:
    history = History()
    history.begin(2)
    asked = evaluator(policy, history)
    for step, claim in zip(steps, claims, strict=False):
        history.step(step)
        shape = a_shape(claim, cpu=0)
        fitting = {*np.flatnonzero(asked.masks(shape) == 0).tolist()}
        choice = asked.best(shape)
        uuids = history.ledger.columns.uuids
        found = choice and (choice.row, [str(uuids[choice.row][slot]) for slot in choice.slots])
        assert found == plain_choice(policy, history, claim, fitting)
