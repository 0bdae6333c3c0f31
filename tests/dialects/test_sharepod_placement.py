"""Which cards KubeShare 1.0's SharePods share with each other, and with pods of other dialects.

Through the machine, as the API server shows pods and their Bindings. The books are the test's own.
"""

import copy
from random import Random
from typing import Any

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, PodGone
from kubeshare_py.domain.identity import PodUid
from tests.dialects.languages import GIB, any_pod, share_pod
from tests.dialects.test_any_language import World
from tests.scale import scaled, seeds

Json = dict[str, Any]
WORDS = {
    "kubeshare/sched_affinity": ("red", "pink"),
    "kubeshare/sched_anti-affinity": ("green", "lime"),
    "kubeshare/sched_exclusion": ("blue", "navy"),
    "kubeshare/GPUID": ("abcde", "fghij"),
}
AFFINITY, ANTI_AFFINITY, EXCLUSION, GPUID = WORDS


class Books(World):
    """What each bound pod's user wrote, by card."""

    def __init__(self) -> None:
        super().__init__()
        self.wrote: dict[str, Json] = {}
        self.cards: dict[str, str] = {}

    def say(self, name: str, milli: int = 300, namespace: str = "default", **words: str) -> bool:
        """Create a SharePod's pod; whether it is bound now."""
        asked = share_pod(name, Random(0))
        meta = asked.pod["metadata"]
        meta["namespace"] = namespace
        meta["annotations"] = {
            "kubeshare/gpu_request": f"{milli / 1000}",
            "kubeshare/gpu_limit": "1",
            "kubeshare/gpu_mem": str(GIB),
            **{f"kubeshare/{key.replace('anti_', 'anti-')}": word for key, word in words.items()},
        }
        self.write(asked.pod)
        self.asked[name] = asked
        self.see(asked.pod)
        for effect in self.machine.handle(BindSlotsFree(64), 0.0):
            if isinstance(effect, Bind):
                self._bound(effect)
        return name in self.placed

    def write(self, pod: Json) -> None:
        """Remember what the user wrote, before the Binding adds to it."""
        meta = pod["metadata"]
        self.wrote[meta["name"]] = {
            "namespace": meta["namespace"],
            **{key: meta.get("annotations", {}).get(key) for key in WORDS},
        }

    def _bound(self, bind: Bind) -> None:
        on_card: dict[str, set[str]] = {}
        for name, at in self.cards.items():
            for uuid in at.split():
                on_card.setdefault(uuid, set()).add(name)
        super()._bound(bind)
        name = bind.key.name
        self.cards[name] = " ".join(card.uuid for card in bind.allocation.cards)
        for card in bind.allocation.cards:
            others = [self.wrote[one] for one in sorted(on_card.get(card.uuid, set()))]
            self._allowed(self.wrote[name], others)
        self._named(name, bind)

    def _allowed(self, own: Json, others: list[Json]) -> None:
        space = own["namespace"]

        def has(other: Json, key: str) -> bool:
            return (other["namespace"], other[key]) == (space, own[key])

        for other in others:
            both = own[EXCLUSION] or other[EXCLUSION]
            assert not both or has(other, EXCLUSION), "a card has one exclusion, or none"
            assert not own[ANTI_AFFINITY] or not has(other, ANTI_AFFINITY)
        friends = any(has(other, AFFINITY) for other in others)
        assert not own[AFFINITY] or not others or friends

    def _named(self, name: str, bind: Bind) -> None:
        """It is where its GPUID is in use, and a GPUID that is new has a card without pods."""
        own = self.wrote[name]
        asked = own[GPUID]
        if self.asked[name].language != "sharepod":
            return
        given = self.asked[name].pod["metadata"]["annotations"][GPUID]
        assert given == (asked or given)
        named = {
            card: self.asked[one].pod["metadata"]["annotations"].get(GPUID)
            for one, card in self.cards.items()
            if one != name
            and self.asked[one].language == "sharepod"
            and self.wrote[one]["namespace"] == own["namespace"]
        }
        card = self.cards[name]
        in_use = {at for at, word in named.items() if word == given}
        assert in_use <= {card}
        others = [one for one, at in self.cards.items() if one != name and card in at.split()]
        assert not asked or in_use or not others
        assert named.get(card, given) == given

    def delete(self, name: str) -> None:
        super().delete(name)
        self.wrote.pop(name)
        self.cards.pop(name, None)


@pytest.mark.parametrize("seed", seeds(10))
def test_no_card_has_pods_that_annotations_of_sharepods_keep_apart(seed: int) -> None:
    """Affinity, anti-affinity and exclusion, with pods of other dialects among them."""
    placed = 0
    for number in range(scaled(20, least=3)):
        world, rng = Books(), Random(seed * 1000 + number)
        for step in range(40):
            if world.asked and rng.random() < 0.35:
                world.delete(rng.choice(sorted(world.asked)))
            else:
                make = share_pod if rng.random() < 0.7 else any_pod
                asked = make(f"p{step}", rng)
                meta = asked.pod["metadata"]
                meta["namespace"] = rng.choice(("default", "default", "other"))
                if asked.language == "sharepod":
                    own = meta["annotations"]
                    own.pop(GPUID, None)
                    own |= {
                        key: rng.choice(words)
                        for key, words in WORDS.items()
                        if rng.random() < 0.25
                    }
                world.write(asked.pod)
                world.create(asked)
            world.decide()
            placed += len(world.placed)
    assert placed


def test_the_first_pod_gets_a_gpuid_of_five_lowercase_letters() -> None:
    """No dummy pod is made for it, and the same decision gives the same letters."""
    names = []
    for _ in range(2):
        world = Books()
        assert world.say("a", 400)
        given = world.asked["a"].pod["metadata"]["annotations"]
        assert given["sharedgpu/gpu_uuid"] == world.cards["a"]
        names.append(given[GPUID])
    assert len(set(names)) == 1
    assert len(names[0]) == 5
    assert names[0].isascii()
    assert names[0].isalpha()
    assert names[0].islower()


def test_an_affinity_joins_pods_of_it_or_opens_a_new_card() -> None:
    """It joins a card of its label with room, else an idle one; never one without the label."""
    world = Books()
    assert world.say("plain", 100)
    assert world.say("a", 500, sched_affinity="red")
    assert world.say("b", 400, sched_affinity="red")
    assert world.say("c", 400, sched_affinity="red")
    assert world.cards["a"] == world.cards["b"]
    assert len({world.cards[name] for name in ("plain", "a", "c")}) == 3


def test_an_anti_affinity_never_joins_its_like() -> None:
    """A pod never joins a card that has its anti-affinity label already."""
    world = Books()
    for name in "abcdefg":
        assert world.say(name, 100, sched_anti_affinity="green")
    assert len({*world.cards.values()}) == 7
    assert not world.say("h", 100, sched_anti_affinity="green")
    assert world.say("i", 100)


def test_an_exclusion_holds_for_every_pod_of_every_namespace() -> None:
    """KubeShare 1.0 stops at a node's first card without the label, and filters no other."""
    world = Books()
    assert world.say("a", 100, sched_exclusion="blue")
    assert world.say("b", 100, sched_exclusion="blue")
    assert world.say("other", 100, namespace="other", sched_exclusion="blue")
    assert world.say("plain", 100)
    assert world.cards["a"] == world.cards["b"]
    assert len({*world.cards.values()}) == 3


def test_pods_of_one_gpuid_share_a_card_and_the_one_too_many_waits() -> None:
    """0.2, 0.4, 0.3 and 0.1 are exactly a card; added as floats, as 1.0 does, they exceed it."""
    world = Books()
    for name, milli in (("a", 200), ("b", 400), ("c", 300), ("d", 100)):
        assert world.say(name, milli, GPUID="abcde")
    assert len({*world.cards.values()}) == 1
    assert not world.say("e", 100, GPUID="abcde")
    world.delete("b")
    for effect in world.machine.handle(BindSlotsFree(64), 0.0):
        if isinstance(effect, Bind):
            world._bound(effect)
    assert world.cards["e"] == world.cards["a"]


def test_a_gpuid_that_the_scheduler_gave_may_be_named() -> None:
    """README.md of release-1.0, "SharePod with NodeName and GPUID"."""
    world = Books()
    assert world.say("a", 200)
    given = world.asked["a"].pod["metadata"]["annotations"][GPUID]
    assert world.say("b", 200, GPUID=given)
    assert world.cards["a"] == world.cards["b"]
    assert world.say("c", 200, namespace="other", GPUID=given)
    assert world.cards["c"] != world.cards["a"]


def test_what_a_user_writes_on_a_bound_pod_moves_nothing() -> None:
    world = Books()
    assert world.say("a", 800)
    assert world.say("b", 800)
    given = world.asked["b"].pod["metadata"]["annotations"][GPUID]
    before = world.free()
    pod = copy.deepcopy(world.asked["a"].pod)
    pod["metadata"]["annotations"] |= {GPUID: given, "kubeshare/sched_exclusion": "mine"}
    world.see(pod)
    assert world.free() == before
    assert world.free(world.started((pod, world.asked["b"].pod))) == before
    assert world.say("c", 100, GPUID=given)
    assert world.cards["c"] == world.cards["b"]
    assert world.say("d", 200)


def test_cards_that_the_kubelet_gave_to_native_pods_are_left_to_them() -> None:
    """README.md of release-1.0: compatible with native `nvidia.com/gpu`, without dummy pods."""
    world = Books()
    for node, count in (("n1", 3), ("n2", 1), ("n3", 2)):
        native = {
            "metadata": {"name": f"native-{node}", "namespace": "b", "uid": f"uid-native-{node}"},
            "spec": {
                "nodeName": node,
                "containers": [
                    {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
                ],
            },
            "status": {"phase": "Running"},
        }
        world.see(native)
    assert world.say("a", 800)
    assert world.cards["a"] == "GPU-n2-0"
    assert not world.say("b", 800)
    world.machine.handle(PodGone(PodUid("uid-native-n1"), stopped=True), 0.0)
    for effect in world.machine.handle(BindSlotsFree(64), 0.0):
        if isinstance(effect, Bind):
            world._bound(effect)
    assert world.cards["b"].startswith("GPU-n1-")


def test_memory_is_checked_on_a_new_card_too() -> None:
    """KubeShare 1.0 opens a new card without looking at its memory."""
    world = Books()
    for name in "abcdefgh":
        world.say(name, 100, gpu_mem=str(17 * GIB))
    assert {card.split("-")[1] for card in world.cards.values()} <= {"n2", "n3"}
    assert len(world.cards) == 4
