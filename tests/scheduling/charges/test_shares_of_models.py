"""Shares of a certain model: charged to other cards by what these can do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, InventoryRead, PodSeen
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.explain.explanation import why
from tests.making import GIB, Driver, a_claim, a_gpu, a_group, a_pod, a_shape, a_share, members
from tests.scale import examples

TABLE = {"A100": 312, "H100": 990, "T4": 65}
PROFILE: dict[str, Any] = {"gpuCapacities": TABLE, "isolation": ["mps"]}


def a_driver(profile: dict[str, Any] | None = None, **models: str) -> Driver:
    """Nodes with cards <node>-0, <node>-1 … of these models, spaces between."""
    document = {"profiles": [PROFILE if profile is None else profile]}
    driver = Driver(dict.fromkeys(models, 0), document)
    show(driver, **models)
    return driver


def show(driver: Driver, **models: str) -> None:
    driver.tell(InventoryRead(tuple((NodeName(n), cards(n, m)) for n, m in models.items())))


def cards(node: str, names: str) -> tuple[Gpu, ...]:
    return tuple(
        a_gpu(f"{node}-{at}", index=at, model=model, memory_bytes=1000 * GIB)
        for at, model in enumerate(names.split())
    )


def of_a100(name: str, milli: int, **fields: Any) -> Pod:
    return a_pod(name, a_shape(a_claim(milli, share_of="A100", **fields)))


def charges(bind: Bind) -> list[tuple[str, int, int]]:
    return [(card.model, card.milli, card.memory_bytes // GIB) for card in bind.allocation.cards]


@pytest.mark.parametrize(("model", "milli"), [("A100", 500), ("H100", 158)])
def test_a_card_is_charged_what_the_share_is_of_it(model: str, milli: int) -> None:
    driver = a_driver(n1=model)
    (bind,) = driver.seen(of_a100("p", 500))
    assert charges(bind) == [(model, milli, milli)]
    columns = driver.machine.ledger.columns
    assert columns.free_milli[0, 0] == 1000 - milli


def test_the_limit_is_scaled_with_it() -> None:
    for model, limit in (("A100", 1000), ("H100", 316)):
        (bind,) = a_driver(n1=model).seen(of_a100("p", 500))
        assert bind.allocation.isolation is not None
        assert bind.allocation.isolation.limit_milli == limit


def test_memory_that_is_asked_for_stays_what_it_is() -> None:
    (bind,) = a_driver(n1="H100").seen(of_a100("p", 500, memory_bytes=7 * GIB))
    assert charges(bind) == [("H100", 158, 7)]


def test_what_is_more_than_a_card_does_not_fit_on_it_and_says_so() -> None:
    driver = a_driver(n1="T4", n2="L40S", n3="T4 H100")
    (bind,) = driver.seen(of_a100("p", 500))
    assert charges(bind)[0][:2] == ("H100", 158)
    driver.seen(a_pod("filler", a_shape(a_claim(800, models=("H100",)))))
    effects = driver.tell(PodSeen(of_a100("q", 500)), BindSlotsFree(64))
    (told,) = (effect for effect in effects if isinstance(effect, ReportWaiting))
    assert told.diagnosis.message == (
        "0/3 nodes are available: 1 GPU not to be compared with A100, "
        "1 GPU too small for the share of A100, 1 Insufficient GPU."
    )
    view = why(driver.machine, of_a100("q", 500).key)
    assert view is not None
    found = {node.name: [(one.reason, one.asked) for one in node.shortfalls] for node in view.nodes}
    assert found == {
        "n1": [("GPU too small for the share of A100", None)],
        "n2": [("GPU not to be compared with A100", None)],
        "n3": [("GPU too small for the share of A100", None), ("Insufficient GPU", 158)],
    }


def test_scaled_cores_make_no_room_for_a_share_that_is_more_than_a_card() -> None:
    driver = a_driver(n1="", n2="")
    scaled = [
        replace(one, cores_scaling=3000) for one in (*cards("n1", "T4"), *cards("n2", "L40S"))
    ]
    driver.tell(InventoryRead(tuple((NodeName(one.uuid[:2]), (one,)) for one in scaled)))
    assert driver.seen(of_a100("p", 500)) == []
    assert driver.seen(of_a100("q", 500, memory_bytes=GIB)) == []
    (bind,) = driver.seen(of_a100("r", 100, memory_bytes=GIB))
    assert charges(bind) == [("T4", 480, 1)]


def test_as_many_fit_as_add_up_to_a_card() -> None:
    driver = a_driver(n1="H100")
    binds = [bind for at in range(8) for bind in driver.seen(of_a100(f"p{at}", 500))]
    assert len(binds) == 6  # 6 x 158 = 948
    (small,) = driver.seen(a_share("small", 52))
    assert charges(small)[0][1] == 52


@pytest.mark.parametrize(
    ("profile", "model"), [({}, "A100"), ({"gpuCapacities": {"H100": 990}}, "A100")]
)
def test_a_model_that_the_profile_does_not_know_is_told(
    profile: dict[str, Any], model: str
) -> None:
    driver = a_driver(profile, n1="A100")
    effects = driver.tell(PodSeen(of_a100("p", 500)), BindSlotsFree(64))
    (told,) = (effect for effect in effects if isinstance(effect, ReportWaiting))
    assert told.diagnosis.message == (
        f"it asks for a share of {model}, which is not in gpuCapacities of its profile"
    )


def test_of_several_claims_the_model_without_a_capacity_is_named() -> None:
    claims = (a_claim(100), a_claim(200, share_of="H100"), a_claim(300, share_of="A100"))
    pod = a_pod("p", a_shape(*claims))
    driver = a_driver({"gpuCapacities": {"H100": 990}}, n1="H100")
    assert driver.seen(pod) == []
    found = why(driver.machine, pod.key)
    assert found is not None
    assert found.message == (
        "it asks for a share of A100, which is not in gpuCapacities of its profile"
    )
    (bind,) = a_driver(n1="H100").seen(pod)
    assert [milli for _, milli, _ in charges(bind)] == [100 + 200 + 95]


def test_new_profiles_bring_a_new_table() -> None:
    driver = a_driver({}, n1="H100")
    driver.seen(of_a100("p", 500))
    document = {"profiles": [{"gpuCapacities": {"A100": 1, "H100": 2}}]}
    driver.machine.handle(ProfilesReplaced(profiles(read(document), IN_TREE)), 0.0)
    (bind,) = driver.decide()
    assert charges(bind)[0][1] == 250


def test_a_restarted_scheduler_charges_what_was_written() -> None:
    driver = a_driver(n1="H100")
    pod = of_a100("p", 500)
    (bind,) = driver.seen(pod)
    allocation = read_allocation(write_allocation(bind.allocation))
    assert allocation == bind.allocation
    # Even if the table is another one by then.
    again = a_driver({"gpuCapacities": {"A100": 1, "H100": 1}}, n1="H100")
    again.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
    assert again.machine.ledger.columns.free_milli[0, 0] == 842


def test_a_gang_counts_by_what_its_shares_are_of_the_cards() -> None:
    driver = a_driver(n1="H100")
    group = a_group(7)
    pods = members(group, 7, a_claim(500, share_of="A100"))
    assert isinstance(driver, Driver)
    assert driver.show(*pods) == []
    said = "room for 6 of them; impossible: they ask for 1.106 GPUs in all; the cluster has 1 that"
    assert said in driver.told["g-0"]
    show(driver, n1="H100 H100")
    assert len(driver.turn()) == 7


@examples(120)
@given(
    table=st.fixed_dictionaries({name: st.integers(1, 2000) for name in "abc"}),
    nodes=st.lists(st.text("abcd", min_size=1, max_size=3), min_size=1, max_size=3),
    pods=st.lists(
        st.tuples(st.integers(0, 1000), st.sampled_from(["", "a", "b"])), min_size=1, max_size=12
    ),
)
def test_no_card_is_ever_overcharged_and_who_waits_fits_nowhere(
    table: dict[str, int], nodes: list[str], pods: list[tuple[int, str]]
) -> None:
    model_of = {f"n{n}-{at}": m for n, models in enumerate(nodes) for at, m in enumerate(models)}
    free = dict.fromkeys(model_of, 1000)
    shown = {f"n{n}": " ".join(models) for n, models in enumerate(nodes)}
    driver = a_driver({"gpuCapacities": table}, **shown)

    def asked(milli: int, of: str, card: str) -> int | None:
        """The plain way: None if it can never be had there."""
        model = model_of[card]
        if not of:
            return milli
        if model not in table:
            return None
        product = milli * table[of]
        return product // table[model] + (product % table[model] > 0)

    for number, (milli, of) in enumerate(pods):
        claim = a_claim(milli, share_of=of, memory_bytes=0)
        binds = driver.seen(a_pod(f"p{number}", a_shape(claim, cpu=0)))
        possible = [
            card
            for card in model_of
            if (take := asked(milli, of, card)) is not None and take <= free[card]
        ]
        assert bool(binds) == bool(possible)
        for bind in binds:
            (charge,) = bind.allocation.cards
            assert charge.uuid in possible
            assert charge.milli == asked(milli, of, charge.uuid)
            free[charge.uuid] -= charge.milli
