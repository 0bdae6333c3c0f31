"""Gangs whose cards must all be of one model."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.pod_groups.gang_places import narrowed
from tests.making import Driver, a_claim, a_gpu, a_group, a_pod, a_shape, members, names, whole
from tests.scale import examples


def a_driver(**models: str) -> Driver:
    """Nodes with cards <node>-0, <node>-1 … of models by letter."""
    driver = Driver(dict.fromkeys(models, 0))
    driver.tell(InventoryRead(tuple((NodeName(n), cards_of(n, m)) for n, m in models.items())))
    return driver


def cards_of(node: str, letters: str) -> tuple[Any, ...]:
    return tuple(a_gpu(f"{node}-{at}", index=at, model=m) for at, m in enumerate(letters))


def alike(milli: int = 1000, **fields: Any) -> GpuClaim:
    return a_claim(milli, one_model=True, **fields)


def order(*tiers: str) -> PreferredModels:
    return PreferredModels(tiers=tuple((tier,) for tier in tiers))


def models_of(binds: list[Bind]) -> str:
    """The models of all cards, sorted."""
    return "".join(sorted(card.model for bind in binds for card in bind.allocation.cards))


def gang(count: int, claim: GpuClaim, headcount: int = 0) -> list[Pod]:
    return members(a_group(count, headcount=headcount), headcount or count, claim)


def test_a_gang_that_asks_for_it_gets_one_model() -> None:
    assert models_of(a_driver(n1="aab", n2="b", n3="b").show(*gang(3, alike()))) == "bbb"
    assert len(a_driver(n1="aab", n2="b", n3="b").show(*gang(5, a_claim(1000)))) == 5


def test_where_no_model_has_enough_nobody_starts_and_all_are_told_why() -> None:
    driver = a_driver(n1="aab", n2="bc")
    assert driver.show(*gang(3, alike())) == []
    text = (
        'pod group "g" needs 3 pods to start together; all on GPUs of one model; room for 2 of '
        "them on a and 2 of them on b and 1 of them on c; impossible: they ask for 3 GPUs in all; "
        "the cluster has at most 2 of one model. "
        "0/2 nodes are available: 1 Insufficient GPU, 1 no GPU of model a."
    )
    assert driver.told == dict.fromkeys(["g-0", "g-1", "g-2"], text)


def test_where_others_hold_a_model_all_are_told_how_many_fit_on_which() -> None:
    driver = a_driver(n1="aaab", n2="bc")
    held = a_pod("held", a_shape(a_claim(1000, models=("a",))))
    assert len(driver.show(held)) == 1
    assert driver.show(*gang(3, alike())) == []
    assert driver.told["g-0"] == (
        'pod group "g" needs 3 pods to start together; all on GPUs of one model; room for 2 of '
        "them on a and 2 of them on b and 1 of them on c, none for 1 that asks for 1 GPU: "
        "0/2 nodes are available: 1 Insufficient GPU, 1 no GPU of model a."
    )


def test_it_starts_as_soon_as_one_model_has_enough() -> None:
    driver = a_driver(n1="aa", n2="bb")
    assert driver.show(*gang(3, alike())) == []
    driver.tell(InventoryRead(((NodeName("n2"), cards_of("n2", "bbb")),)))
    assert models_of(driver.turn()) == "bbb"


def test_of_models_that_have_enough_the_gang_gets_the_one_that_it_prefers() -> None:
    for first, second in ("ab", "ba"):
        driver = a_driver(n1="aaa", n2="bbb")
        assert models_of(driver.show(*gang(3, alike(preferred=order(first, second))))) == first * 3


def test_without_a_preference_it_gets_the_one_on_which_it_is_placed_best() -> None:
    driver = a_driver(n1="aaa", n2="bbb")
    driver.place(a_pod("p", a_shape(a_claim(100, models=("b",)))))
    assert models_of(driver.show(*gang(3, alike(300)))) == "bbb"


def test_a_model_that_only_some_members_take_will_not_do() -> None:
    driver = a_driver(n1="aaa", n2="bb")
    choosy = gang(2, alike(models=("b",)))
    group = choosy[0].group
    assert group is not None
    easy = members(group, 2, alike(), start=2)
    assert models_of(driver.show(choosy[0], easy[0])) == "bb"


def test_members_that_do_not_ask_for_it_are_free() -> None:
    driver = a_driver(n1="aab")
    pods = gang(3, alike())
    free = replace(pods[2], shape=a_shape(a_claim(1000, models=("b",))))
    assert models_of(driver.show(*pods[:2], free)) == "aab"


def test_several_cards_each_are_of_one_model_too() -> None:
    driver = a_driver(n1="aabb", n2="aabbb", n3="bb")
    binds = driver.show(*gang(3, whole(2, one_model=True)))
    assert models_of(binds) == "bbbbbb"


def with_two_of_b(count: int, headcount: int = 0) -> list[Pod]:
    """Members with one card of a common model, and two cards of model b for another container."""
    group = a_group(count, headcount=headcount)
    shape = a_shape(alike(), a_claim(1000, models=("b",), count=2))
    names = [f"g-{number}" for number in range(headcount or count)]
    return [a_pod(name, shape, group=group) for name in names]


def test_a_late_member_gets_the_model_of_the_claims_that_ask_for_one() -> None:
    driver = a_driver(n1="abb", n2="abb", n3="abb")
    pods = with_two_of_b(2, headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    assert models_of(driver.show(pods[2])) == "abb"


def test_cards_of_claims_that_take_any_model_make_no_gang_impossible() -> None:
    driver = a_driver(n1="abb", n2="abb")
    filler = fill(driver, "x", "b")
    pods = with_two_of_b(2)
    assert driver.show(*pods) == []
    driver.later(30)
    assert "impossible" not in driver.told["g-0"]
    assert models_of(driver.gone(filler)) == "aabbbb"


def test_claims_of_one_model_are_counted_apart_from_others() -> None:
    driver = a_driver(n1="abb", n2="cbb")
    shape = a_shape(alike(models=("a", "c")), a_claim(1000, models=("b",), count=2))
    group = a_group(2)
    driver.show(a_pod("g-0", shape, group=group), a_pod("g-1", shape, group=group))
    assert (
        "impossible: they ask for 2 GPUs of one model in all; the cluster has at most 1 of one "
        "model. "
    ) in driver.told["g-0"]


def fill(driver: Driver, name: str, model: str) -> Pod:
    pod = a_pod(name, a_shape(a_claim(1000, models=(model,))))
    driver.place(pod)
    return pod


def test_a_late_member_waits_for_that_model_and_is_told_so() -> None:
    driver = a_driver(n1="aa", n2="bb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    assert driver.show(pods[2]) == []
    driver.later(30)
    assert driver.told["g-2"] == (
        "0/2 nodes are available: 1 Insufficient GPU, 1 no GPU of model a."
    )
    driver.tell(InventoryRead(((NodeName("n1"), cards_of("n1", "aaa")),)))
    assert models_of(driver.turn()) == "a"


def test_when_all_are_gone_the_next_ones_may_have_another_model() -> None:
    driver = a_driver(n1="aa", n2="bb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    driver.show(pods[2])
    more = members(a_group(2, headcount=3), 1, pods[0].shape.claim, start=3)
    assert driver.show(more[0]) == []
    fill(driver, "x", "b")
    assert len(driver.gone(*pods[:2])) == 2


def test_the_model_outlasts_a_restart() -> None:
    driver = a_driver(n1="aa", n2="bb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    binds = driver.show(*pods[:2])
    bound = [
        replace(pod, node_name=bind.node, allocation=bind.allocation)
        for pod, bind in zip(pods, binds, strict=False)
    ]
    again = a_driver(n1="aa", n2="bb")
    assert again.show(*bound, pods[2]) == []
    assert names(again.gone(bound[0])) == ["g-2"]


def test_members_of_a_small_group_join_the_first_even_in_one_turn() -> None:
    driver = a_driver(n1="a", n2="bb", n3="bb")
    group = PodGroup(name="g", headcount=3, min_available=1)
    wish = order("a", "b")
    binds = driver.show(*members(group, 3, alike(preferred=wish)))
    assert models_of(binds) == "a"
    assert driver.tell() == []


def test_a_member_that_denies_the_others_model_waits_and_says_why() -> None:
    driver = a_driver(n1="aaa", n2="bbb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    shy = replace(pods[2], shape=a_shape(alike(preferred=PreferredModels(denied=("a",)))))
    assert driver.show(shy) == []
    driver.later(30)
    assert "1 GPU of a denied model (a)" in driver.told["g-2"]


def test_edited_labels_are_looked_at_anew() -> None:
    driver = a_driver(n1="aa", n2="bb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    assert driver.show(pods[2]) == []
    free = replace(pods[2], shape=a_shape(a_claim(1000)))
    assert models_of(driver.show(free)) == "b"


def test_why_names_what_a_late_member_needs() -> None:
    driver = a_driver(n1="aa", n2="bb")
    pods = gang(2, alike(preferred=order("a", "b")), headcount=3)
    driver.bound(driver.show(*pods[:2]), *pods)
    driver.show(pods[2])
    view = why(driver.machine, pods[2].key)
    assert view is not None
    by_name = {node.name: [one.reason for one in node.shortfalls] for node in view.nodes}
    assert by_name == {"n1": ["Insufficient GPU"] * 2, "n2": ["its GPUs are b"]}


def test_why_says_which_choice_a_pod_got() -> None:
    driver = a_driver(n1="ab")
    wish = order("c", "b", "a")
    pod = a_pod("p", a_shape(a_claim(500, preferred=wish)))
    driver.place(pod)
    view = why(driver.machine, pod.key)
    assert view is not None
    assert view.message == "b is choice 2 of 3 (c > b > a)"


def test_a_shape_is_narrowed_only_if_it_asks_for_one_model() -> None:
    free = a_shape(a_claim())
    assert narrowed(free, "a") is free
    assert narrowed(a_shape(alike()), "") == a_shape(alike())
    assert narrowed(a_shape(alike()), "a") == a_shape(alike(models=("a",)))


@examples(150)
@given(
    nodes=st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=3),
    count=st.integers(2, 5),
    tiers=st.permutations("abc"),
    denied=st.sampled_from("abcx"),
    held=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=4),
)
def test_a_gang_starts_exactly_if_a_model_has_enough_and_on_the_best_of_those(
    nodes: list[str],
    count: int,
    tiers: list[str],
    denied: str,
    held: list[tuple[int, int]],
) -> None:
    driver = a_driver(**{f"n{number}": letters for number, letters in enumerate(nodes)})
    free = [letter for letters in nodes for letter in letters]
    for at, (number, card) in enumerate(held):
        if number < len(nodes) and card < len(nodes[number]):
            model = nodes[number][card]
            if model in free:
                fill(driver, f"f{at}", model)
                free.remove(model)
    wish = PreferredModels(tiers=tuple((tier,) for tier in tiers), denied=(denied,))
    binds = driver.show(*gang(count, alike(preferred=wish)))
    enough = [model for model in tiers if model != denied and free.count(model) >= count]
    assert models_of(binds) == (enough[0] * count if enough else "")
