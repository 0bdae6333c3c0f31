"""Any cluster and any gang of one shape that does not fit: who goes for it, by brute force.

Pods of one shape fit as many as they are put somewhere one after the other, so that is no guess.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import PreemptionPlan
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.scale import examples
from tests.scheduling.preemption.test_any_preemption import Scene
from tests.scheduling.preemption_reference import PreemptionReference, importance

Draws = st.integers(0, 10**9)


def a_gang(scene: Scene) -> list[Pod]:
    """Pods of one shape and rank, not all of which fit."""
    first = replace(scene.pod("new-0"), priority=2 + scene.numbers.randrange(3))
    names = [f"new-{number}" for number in range(2 + scene.numbers.randrange(4))]
    key = first.key
    pods = [
        replace(first, uid=PodUid(f"uid-{name}"), key=PodKey(key.namespace, name)) for name in names
    ]
    return [] if fit(scene.reference, pods) else pods


def fit(reference: PreemptionReference, pods: list[Pod]) -> bool:
    """Whether all of these pods of one shape have room at once."""
    room = reference.without(())
    for pod in pods:
        node = room.fits_somewhere(pod)
        if node is None:
            return False
        room.held[pod.uid] = room.holding(pod, node)
    return True


def expect_lean(reference: PreemptionReference, plan: PreemptionPlan, pods: list[Pod]) -> None:
    """Nobody could be spared: no pod, and of no gang that goes for good as many as it must have."""
    gone = {victim.uid for victim in plan.victims}
    for uid in sorted(gone):
        group = reference.pods[uid].group
        if reference.gangs_are_whole(gone - {uid}):
            assert not fit(reference.without(gone - {uid}), pods), f"{uid} could stay"
        elif group is not None:
            members = [pod for pod in reference.members(group.name) if pod.uid in gone]
            staying: set[PodUid] = set()
            for member in sorted(members, key=importance):
                if fit(reference.without(gone - staying - {member.uid}), pods):
                    staying.add(member.uid)
            assert len(staying) < group.min_available, f"{staying} could stay"


@pytest.mark.slow
@examples(400)
@given(Draws)
def test_none_of_the_victims_of_a_gang_could_stay(seed: int) -> None:
    scene = Scene(seed, pods=20)
    pods = a_gang(scene)
    plan = scene.plan(*pods) if pods else None
    if plan is not None:
        scene.reference.expect_right(plan, pods)
        expect_lean(scene.reference, plan, pods)


@examples(200)
@given(Draws)
def test_a_gang_finds_victims_whenever_all_that_may_go_would_make_room(seed: int) -> None:
    scene = Scene(seed, gangs=False, pods=20)
    pods = a_gang(scene)
    if not pods or scene.plan(*pods) is not None:
        return
    able = {
        uid
        for uid in scene.reference.held
        if scene.reference.may_go(scene.reference.pods[uid], pods[0])
    }
    assert not fit(scene.reference.without(able), pods), "somebody could have gone"
