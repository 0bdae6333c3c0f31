"""Which models a claim takes."""

from typing import Any

import pytest

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.pod import Shape
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(GpuFit(), GpuModel())
    cluster.node("old", a_gpu("o", model="T4"))
    cluster.node("new", a_gpu("n", model="A100"))
    cluster.node("both", a_gpu("b1", model="T4"), a_gpu("b2", index=1, model="A100"))
    cluster.node("none")
    return cluster


def test_a_claim_without_models_takes_any(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape(a_claim())) == {"old", "new", "both"}


@pytest.mark.slow
def test_only_cards_of_a_named_model_are_taken(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(models=("A100",)))
    assert cluster.where(shape) == {"new", "both"}
    cluster.hold("new", "n", 900)
    assert cluster.best(shape) == ("both", ["b2"])


def test_several_models_may_be_named(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape(a_claim(models=("T4", "A100")))) == {"old", "new", "both"}


def test_a_model_that_nobody_has_is_named_in_the_reason(cluster: SmallCluster) -> None:
    assert cluster.why(a_shape(a_claim(models=("H100",)))) == {
        "no GPU of model H100": 3,
        "no GPU": 1,
    }


def test_models_are_not_mixed_when_one_is_named(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape(whole(2))) == {"both"}
    assert cluster.where(a_shape(whole(2, models=("A100",)))) == set()


def test_a_card_of_the_right_model_that_is_full_is_the_nearer_miss(cluster: SmallCluster) -> None:
    cluster.hold("both", "b2", 1000, memory=0)
    cluster.hold("new", "n", 1000, memory=0)
    shape = a_shape(a_claim(100, models=("A100",)))
    assert cluster.why(shape)["Insufficient GPU"] == 2


def test_a_model_that_is_seen_later_counts(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(models=("H100",)))
    assert cluster.where(shape) == set()
    cluster.node("newest", a_gpu("h", model="H100"))
    assert cluster.where(shape) == {"newest"}


def test_cards_of_another_model_are_told_for_people(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(models=("A100",)))
    assert cluster.explain(shape, "both") == [Shortfall(reason="is a T4", subject="b1")]
    assert cluster.explain(a_shape(a_claim()), "both") == []


def test_a_node_that_has_other_models_only_is_told_in_one_line(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(models=("H100",)))
    assert cluster.explain(shape, "both") == [Shortfall(reason="its GPUs are A100 and T4")]
    assert "its GPUs are " not in {short.reason for short in cluster.explain(shape, "none")}


def wishing(*tiers: str, denied: tuple[str, ...] = (), **fields: Any) -> Shape:
    parts = tuple(tuple(tier.split(",")) for tier in tiers)
    return a_shape(a_claim(preferred=PreferredModels(tiers=parts, denied=denied), **fields))


def test_parts_of_names_will_do(cluster: SmallCluster) -> None:
    cluster.node("newest", a_gpu("h", model="NVIDIA-H100-80GB-HBM3"))
    assert cluster.where(wishing("H100")) == {"newest"}
    assert cluster.where(wishing("H100,t4")) == {"newest", "old", "both"}
    assert cluster.where(wishing("H100", "*")) == {"newest", "old", "new", "both"}


def test_denied_models_are_never_taken(cluster: SmallCluster) -> None:
    shape = wishing(denied=("T4",))
    assert cluster.where(shape) == {"new", "both"}
    assert cluster.best(shape) in (("new", ["n"]), ("both", ["b2"]))
    assert cluster.why(shape) == {"GPU of a denied model (T4)": 1, "no GPU": 1}


def test_what_is_denied_is_told_apart_from_what_is_not_named(cluster: SmallCluster) -> None:
    shape = wishing("H100", "T4", denied=("T4",))
    assert cluster.where(shape) == set()
    assert cluster.why(shape) == {
        "no GPU of model H100 or T4": 2,
        "GPU of a denied model (T4)": 1,
        "no GPU": 1,
    }


def test_the_exact_name_and_the_wish_must_both_hold(cluster: SmallCluster) -> None:
    assert cluster.where(wishing("T4", models=("A100",))) == set()
    assert cluster.where(wishing("A100", models=("A100",))) == {"new", "both"}
    assert cluster.why(wishing("T4", models=("A100",)))["no GPU of model A100 that is also T4"] == 3


def test_beside_denied_cards_an_empty_slot_is_not_the_nearer_miss(cluster: SmallCluster) -> None:
    shape = wishing(denied=("A100", "T4"))
    assert cluster.why(shape) == {"GPU of a denied model (A100, T4)": 3, "no GPU": 1}


def test_denied_cards_are_told_for_people(cluster: SmallCluster) -> None:
    one = wishing(denied=("T4",))
    assert cluster.explain(one, "both") == [Shortfall(reason="is a T4 (denied)", subject="b1")]
    all_of_them = wishing("H100", denied=("T4",))
    assert cluster.explain(all_of_them, "both") == [
        Shortfall(reason="its GPUs are A100 and T4 (denied)")
    ]
