"""Pods with tags of cards, through the machine and a restart."""

import msgspec
import pytest

from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace
from tests.making import GIB, Driver, a_claim, a_group, a_machine, a_pod, a_shape, members

N1 = NodeName("n1")
RED, NOT_RED, ONLY_RED, NAMED_RED = ((CardTag(kind, "default", "red"),) for kind in TagKind)


def tagged(name: str, tags: CardTags, milli: int = 300, **fields: object) -> Pod:
    return a_pod(name, a_shape(a_claim(milli, memory_bytes=GIB, tags=tags)), **fields)


def cards(driver: Driver) -> list[set[str]]:
    """The pods on each card, the fullest first."""
    found: dict[str, set[str]] = {}
    for uid, charge in driver.machine.ledger.pods_on(N1).items():
        for card in charge.allocation.cards if charge.allocation else ():
            found.setdefault(card.uuid, set()).add(uid.removeprefix("uid-"))
    return sorted(found.values(), key=lambda pods: (-len(pods), sorted(pods)))


def test_each_kind_of_tag_decides_which_pods_share_a_card() -> None:
    driver = Driver({"n1": 3})
    for name, tags in (("a", ()), ("b", ONLY_RED), ("c", RED), ("d", RED), ("e", ONLY_RED)):
        driver.place(tagged(name, tags))
    assert cards(driver) == [{"b", "e"}, {"c", "d"}, {"a"}]
    assert driver.seen(tagged("f", ONLY_RED, 500)) == []
    driver.place(tagged("g", ()))
    assert {"b", "e"} in cards(driver)


def test_a_restarted_scheduler_knows_the_tags() -> None:
    driver = Driver({"n1": 1})
    pod = tagged("a", ONLY_RED)
    bind = driver.place(pod)
    read = read_allocation(write_allocation(bind.allocation))
    assert isinstance(read, Allocation)
    assert read.cards == bind.allocation.cards
    again = Driver({"n1": 1}, machine=a_machine(name="again"))
    again.tell(PodSeen(replace(pod, node_name=bind.node, allocation=read)))
    assert again.seen(tagged("b", ())) == []
    assert len(again.seen(tagged("c", ONLY_RED))) == 1


def test_a_pod_that_waits_is_tried_when_its_card_is_free_of_others() -> None:
    driver = Driver({"n1": 1})
    first = tagged("a", ONLY_RED)
    driver.place(first)
    assert driver.seen(tagged("b", ())) == []
    driver.tell(PodGone(first.uid))
    assert [bind.uid for bind in driver.decide()] == ["uid-b"]


def test_a_pod_that_waits_is_tried_when_a_pod_of_its_tag_comes() -> None:
    driver = Driver({"n1": 1})
    driver.place(tagged("a", ()))
    assert driver.seen(tagged("b", RED)) == []
    charge = CardCharge(GpuUuid("GPU-n1-0"), 100, 0, tags=RED)
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,))
    other = a_pod("c", scheduler_name="other", node_name=N1, allocation=allocation)
    assert [bind.uid for bind in driver.seen(other)] == ["uid-b"]


@pytest.mark.parametrize(("tags", "cards_used"), [(NOT_RED, 3), (ONLY_RED, 1), (RED, 1)])
def test_members_of_a_gang_mind_each_others_tags(tags: CardTags, cards_used: int) -> None:
    driver = Driver({"n1": 4})
    claim = a_claim(300, memory_bytes=GIB, tags=tags)
    assert len(driver.show(*members(a_group(3), 3, claim))) == 3
    assert len(cards(driver)) == cards_used
    more = driver.show(*members(a_group(2, "h"), 2, claim))
    assert len(more) == (0 if tags == NOT_RED else 2)


def test_pods_give_way_to_a_pod_whose_tag_keeps_them_apart() -> None:
    driver = Driver({"n1": 1}, document={})
    driver.place(tagged("low", ONLY_RED))
    assert driver.show(tagged("high", (), priority=10)) == []
    assert driver.evicted == ["low"]


def test_members_that_keep_apart_evict_a_pod_each() -> None:
    driver = Driver({"n1": 2}, document={})
    for name in ("a", "b"):
        driver.place(tagged(name, (), 800))
    claim = a_claim(300, memory_bytes=GIB, tags=NOT_RED)
    assert driver.show(*members(a_group(2), 2, claim, priority=10)) == []
    assert sorted(driver.evicted) == ["a", "b"]


def test_tags_are_written_for_each_container_too() -> None:
    charge = CardCharge(GpuUuid("g"), 1, 2, tags=(*RED, *ONLY_RED))
    claim = ClaimCharge(container=ContainerRef(init=False, index=0), cards=(charge,))
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,), claims=(claim,))
    assert read_allocation(write_allocation(allocation)) == allocation


@pytest.mark.parametrize("tag", ["exclusion=a", "friend=a/b", "affinity=a/b c", 7])
def test_a_tag_that_cannot_be_read_is_said(tag: object) -> None:
    text = msgspec.json.encode(
        {"v": 1, "token": "t", "claims": [{"uuid": "g", "milli": 1, "bytes": 1, "tags": [tag]}]}
    ).decode()
    said = read_allocation(text)
    assert isinstance(said, str)
    assert "$.claims[0].tags[0]" in said
