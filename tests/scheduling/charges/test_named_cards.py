"""Pods whose cards have names, through the machine and a restart."""

from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import GIB, Driver, a_claim, a_group, a_machine, a_pod, a_shape, members


def named(name: str, word: str = "", milli: int = 300, **fields: object) -> Pod:
    tags: CardTags = (CardTag(TagKind.NAME, "default", word),) if word else ()
    claim = a_claim(milli, memory_bytes=GIB, tags=tags, is_named=True)
    return a_pod(name, a_shape(claim), **fields)


def card(bind: Bind) -> tuple[str, str]:
    """The card of a placement, and its name."""
    [held] = bind.allocation.cards
    [tag] = held.tags
    assert (tag.kind, tag.namespace) == (TagKind.NAME, "default")
    return held.uuid, tag.word


def test_a_card_keeps_its_name_until_its_last_pod_leaves() -> None:
    driver = Driver({"n1": 2})
    uuid, new = card(driver.place(named("a", milli=600)))
    assert len(new) == 5
    assert new.isalpha()
    assert new.islower()
    other, another = card(driver.place(named("b", milli=600)))
    assert (uuid == other, new == another) == (False, False)
    assert card(driver.place(named("c", new))) == (uuid, new)
    assert driver.seen(named("d", new)) == []
    driver.tell(PodGone(named("a").uid), PodGone(named("c").uid))
    [bind] = driver.decide()
    assert card(bind) == (uuid, new)


def test_a_pod_without_a_name_gets_that_of_its_card() -> None:
    driver = Driver({"n1": 1})
    uuid, _ = card(driver.place(named("a", "abc")))
    assert card(driver.place(named("b"))) == (uuid, "abc")


def test_a_card_with_pods_of_others_gets_a_name_too() -> None:
    driver = Driver({"n1": 1})
    driver.place(a_pod("other", a_shape(a_claim(300, memory_bytes=GIB))))
    _, new = card(driver.place(named("a")))
    assert card(driver.place(named("b", new)))[1] == new


def test_the_same_decision_gives_the_same_name() -> None:
    binds = [Driver({"n1": 2}).place(named("a")) for _ in range(2)]
    assert card(binds[0]) == card(binds[1])


def test_a_restarted_scheduler_knows_the_names() -> None:
    driver = Driver({"n1": 2})
    pod = named("a")
    bind = driver.place(pod)
    read = read_allocation(write_allocation(bind.allocation))
    assert isinstance(read, Allocation)
    assert read.cards == bind.allocation.cards
    again = Driver({"n1": 2}, machine=a_machine(name="again"))
    again.tell(PodSeen(replace(pod, node_name=bind.node, allocation=read)))
    [second] = again.seen(named("b", card(bind)[1]))
    assert card(second) == card(bind)


def test_a_name_on_another_node_draws_the_pod_there() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    first = driver.place(named("a", "abc"))
    driver.place(named("x", milli=800))
    second = driver.place(named("b", "abc"))
    assert (second.node, card(second)) == (first.node, card(first))
    assert driver.seen(named("c", "abc", 500)) == []


def test_members_of_a_gang_share_the_card_that_they_name() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    tag = (CardTag(TagKind.NAME, "default", "abc"),)
    claim = a_claim(300, memory_bytes=GIB, tags=tag, is_named=True)
    binds = driver.show(*members(a_group(3), 3, claim))
    assert len({card(bind) for bind in binds}) == 1
    assert len(binds) == 3
    assert driver.show(*members(a_group(2, "h"), 2, claim)) == []


def test_pods_give_way_on_the_card_that_the_pod_names() -> None:
    driver = Driver({"n1": 2}, document={})
    place = {"a": driver.place(named("a", "abc", 800)), "b": driver.place(named("b", "xyz", 800))}
    assert card(place["a"])[0] != card(place["b"])[0]
    assert driver.show(named("high", "xyz", 500, priority=10)) == []
    assert driver.evicted == ["b"]
    [bind] = driver.gone(named("b"))
    assert card(bind) == card(place["b"])
