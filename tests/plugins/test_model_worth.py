"""Cards of the models that the profile says are cheap, fast, or worth it."""

from typing import Any

import pytest

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.model_worth import ModelWorth
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.framework.profile_making import ArgumentError
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole

MODELS: dict[str, Any] = {
    "H100": {"price": 390, "speed": 990},
    "A100": {"price": 180, "speed": 312},
    "T4": {"price": 40, "speed": 65},
}
ONE = a_shape(a_claim(400))


def a_cluster(goal: str, **models: str) -> SmallCluster:
    """Nodes with cards of these models, spaces between."""
    cluster = SmallCluster(GpuFit(), GpuModel(), ModelWorth(goal, MODELS))
    for node, names in models.items():
        cards = [
            a_gpu(f"{node}-{at}", index=at, model=f"NVIDIA-{name}")
            for at, name in enumerate(names.split())
        ]
        cluster.node(node, *cards)
    return cluster


@pytest.mark.parametrize(
    ("goal", "points"),
    [
        ("cheapest", {"h": 0, "a": 60, "t": 100, "x": 0}),
        ("fastest", {"h": 100, "a": 26, "t": 0, "x": 0}),
        ("value", {"h": 100, "a": 11, "t": 0, "x": 0}),
    ],
)
def test_points_are_in_proportion_from_the_worst_to_the_best(
    goal: str, points: dict[str, int]
) -> None:
    assert a_cluster(goal, h="H100", a="A100", t="T4", x="L40S").scores(ONE) == points


def test_the_cheapest_that_will_do_is_taken() -> None:
    cluster = a_cluster("cheapest", h="H100", a="A100", t="T4")
    assert cluster.best(ONE) == ("t", ["t-0"])
    not_t4 = a_shape(a_claim(400, preferred=PreferredModels(denied=("T4",))))
    assert cluster.best(not_t4) == ("a", ["a-0"])
    cluster.hold("a", "a-0", 700)
    assert cluster.best(not_t4) == ("h", ["h-0"])


def test_within_a_node_the_same_holds_card_by_card() -> None:
    cluster = a_cluster("fastest", n1="T4 H100 A100")
    assert cluster.best(ONE) == ("n1", ["n1-1"])
    assert cluster.best(a_shape(whole(2))) == ("n1", ["n1-1", "n1-2"])


def test_several_cards_are_worth_what_the_worst_of_them_is() -> None:
    cluster = a_cluster("fastest", n1="T4 H100 T4", n2="A100 A100")
    assert cluster.scores(a_shape(whole(2))) == {"n1": 0, "n2": 26}
    assert cluster.scores(a_shape(whole(2, one_model=True))) == {"n1": 0, "n2": 26}


def test_the_first_name_that_names_a_model_counts() -> None:
    table = {"A100-80GB": {"price": 1, "speed": 9}, "A100": {"price": 1, "speed": 1}}
    cluster = SmallCluster(ModelWorth("fastest", table))
    cluster.node("n1", a_gpu("a", model="NVIDIA-A100-80GB-PCIe"))
    cluster.node("n2", a_gpu("b", model="NVIDIA-A100-PCIE-40GB"))
    assert cluster.scores(ONE) == {"n1": 100, "n2": 0}


def test_equal_models_are_all_best() -> None:
    cluster = SmallCluster(ModelWorth("cheapest", {"*": {"price": 5, "speed": 5}}))
    cluster.node("n1", a_gpu("a", model="whatever"))
    assert cluster.scores(ONE) == {"n1": 100}


def test_without_a_table_or_cards_there_is_nothing_to_say() -> None:
    assert ModelWorth().score(ONE) is None
    assert ModelWorth().card_score(ONE) is None
    assert ModelWorth("fastest", MODELS).score(a_shape()) is None
    assert ModelWorth("fastest", MODELS).card_score(a_shape()) is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"goal": "best"}, "goal: must be cheapest or fastest or value"),
        ({"models": ["T4"]}, "models: Expected `object`"),
        ({"models": {"T4": 5}}, "models[T4]: Expected `object`"),
        ({"models": {"T4": {"price": 5}}}, "models[T4]: Object missing required field `speed`"),
        ({"models": {"T4": {"price": 0, "speed": 1}}}, "models[T4].price: Expected `int` >= 1"),
        ({"models": {"T4": {"price": 1.5, "speed": 1}}}, "models[T4].price: Expected `int`"),
        ({"models": {"T4": {"price": 1, "sped": 1}}}, "models[T4].sped: no such field"),
        ({"models": {"": {"price": 1, "speed": 1}}}, "models[]: must be the name"),
        ({"models": {"T4 > A100": {"price": 1, "speed": 1}}}, "models[T4 > A100]: must be the"),
    ],
)
def test_a_bad_argument_is_named_with_its_path(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        ModelWorth(**args)
    assert str(error.value).startswith(message)
