"""What kube-scheduler said of named cases, compared with this scheduler's answers; without Go."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kubeshare_py.domain.values import replace
from tests.differential import ours
from tests.differential.answers import Candidate, CaseAnswer, of_oracle
from tests.differential.comparison import differences
from tests.differential.generator.cases import SUBJECTS, case
from tests.differential.generator.pods import pod
from tests.differential.intended import INTENDED, NOT_SHOWN, is_intended
from tests.differential.kube_scheduler import KubeScheduler, built
from tests.differential.recorded_cases import RecordedCase, recorded
from tests.differential.shrinking import shrunken

RECORDED = recorded()


@pytest.mark.parametrize("known", RECORDED, ids=lambda known: known.name)
def test_this_scheduler_says_what_kube_scheduler_said(known: RecordedCase) -> None:
    found = ours.answer(known.case)
    assert not found.unsupported
    assert differences(of_oracle(known.said), found) == []


@pytest.mark.real_only("asks kube-scheduler's plugins, which are built with Go")
def test_kube_scheduler_still_says_so() -> None:
    with KubeScheduler(built()) as oracle:
        said = {known.name: oracle.answer(known.case) for known in RECORDED}
    assert said == {known.name: known.said for known in RECORDED}


def test_the_same_numbers_make_the_same_case_and_others_make_others() -> None:
    made = [case(1, index) for index in range(20)]
    assert made == [case(1, index) for index in range(20)]
    assert made != [case(2, index) for index in range(20)]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_changes_pods(subject: str) -> None:
    plain, other = pod(Random(1), "p"), pod(Random(1), "p")
    for seed in range(20):
        SUBJECTS[subject](Random(seed), other)
    assert plain != other


RIGHT = CaseAnswer(
    nodes=frozenset({"n0", "n1"}),
    filters={"NodeName": {}, "NodePorts": {"n1": (("busy",), True)}},
    feasible=frozenset({"n0"}),
    scores={"ImageLocality": {"n0": 5, "n1": 7}},
    weights={"ImageLocality": 1},
    chosen=frozenset({"n0"}),
)
FULL = CaseAnswer(
    nodes=frozenset({"n0"}),
    filters={"NodePorts": {"n0": (("busy",), True)}},
    preempted=(Candidate(node="n0", victims=("a/b",)),),
    message="0/1 nodes are available: 1 busy.",
)
WRONG: list[tuple[CaseAnswer, dict[str, Any], str]] = [
    (RIGHT, {"nodes": frozenset({"n0"})}, "nodes"),
    (RIGHT, {"filters": {"NodeName": {}, "NodePorts": {}}}, "filter NodePorts"),
    (RIGHT, {"filters": {"NodePorts": {"n1": (("busy",), False)}}}, "filter NodePorts"),
    (RIGHT, {"feasible": frozenset({"n0", "n1"})}, "feasible"),
    (RIGHT, {"scores": {"ImageLocality": {"n0": 5, "n1": 8}}}, "score ImageLocality"),
    (RIGHT, {"chosen": frozenset({"n1"})}, "outcome"),
    (RIGHT, {"chosen": frozenset()}, "outcome"),
    (FULL, {"preempted": ()}, "victims"),
    (FULL, {"message": "0/1 nodes are available: 1 full."}, "message"),
    (FULL, {"preempted": (Candidate(node="n0", victims=("a/c",)),)}, "victims"),
    (FULL, {"preempted": (Candidate(node="n1", victims=("a/b",)),)}, "victims"),
]


@pytest.mark.parametrize(("right", "change", "kind"), WRONG)
def test_each_kind_of_difference_is_found(
    right: CaseAnswer, change: dict[str, Any], kind: str
) -> None:
    assert differences(right, right) == []
    found = differences(right, replace(right, **change))
    assert kind in {one.kind for one in found}


def test_not_found_after_a_prefilters_refusal_is_left_out() -> None:
    said = "0/1 nodes are available: no claim."
    refused = replace(FULL, is_complete=False, message=f"{said} not found")
    assert differences(refused, replace(FULL, message=said)) == []
    (one,) = differences(replace(refused, is_complete=True), replace(FULL, message=said))
    assert one.kind == "message"


def test_every_intended_difference_is_documented_and_every_documented_one_is_known() -> None:
    page = (Path(__file__).parents[2] / "docs/compatibility.md").read_text()
    _, _, rest = page.partition("These differences are known and intended:\n\n")
    lines = rest.partition("\n\n")[0].splitlines()
    documented = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert sorted(documented) == sorted([*(one.what for one in INTENDED), *NOT_SHOWN])


def test_an_intended_difference_is_meant_only_in_its_cases() -> None:
    plain, own = case(1, 3), case(1, 3)
    own["pod"]["spec"]["resources"] = {"requests": {"cpu": "2"}}
    plain["pod"]["spec"].pop("resources", None)
    assert is_intended("outcome", own)
    assert not is_intended("outcome", plain)
    assert not is_intended("filter NodeResourcesFit", own)


def test_a_pod_that_is_not_supported_does_not_differ() -> None:
    assert differences(RIGHT, CaseAnswer(nodes=RIGHT.nodes, unsupported=("spec.x",))) == []


def test_a_case_is_made_smaller_and_stays_a_cluster_with_a_pod() -> None:
    def shows(smaller: dict[str, Any]) -> bool:
        return any(one["metadata"]["name"] == "n1" for one in smaller["objects"])

    whole = next(made for made in (case(1, index) for index in range(100)) if shows(made))
    (left,) = shrunken(shows, whole)["objects"]
    assert left["metadata"]["name"] == "n1"
    assert left["kind"] == "Node"
