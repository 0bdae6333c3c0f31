"""One JSON line per decision, with the pod, what was decided, and why."""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import (
    Bind,
    CardChange,
    Lingers,
    LogPluginFailure,
    NominatedPlace,
    Overuse,
    PodWarning,
    Preempt,
    PreemptionPlan,
    Preemptor,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    Victim,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.scheduler.decision_loop import decided

UID, KEY, N1 = PodUid("u-1"), PodKey("default", "train"), NodeName("n1")
CARDS = tuple(CardCharge(GpuUuid(uuid), 1000, 1, "T4") for uuid in ("GPU-1", "GPU-2"))
ALLOCATION = Allocation(token=DecisionToken("s-7"), dialect="sharedgpu", cards=CARDS)
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def root_logger() -> Iterator[None]:
    """Leave the root logger to pytest as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def lines(root_logger: None, capsys: pytest.CaptureFixture[str]) -> Lines:
    """What was written to standard error so far, every line decoded."""
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_plan_that_evicts_is_a_warning_and_names_its_victims(lines: Lines) -> None:
    decision_log.set_up("warning")
    places = (NominatedPlace(uid=UID, key=KEY, node=N1),)
    plan = PreemptionPlan(
        preemptor=Preemptor(namespace="default", name="train"), nominations=places
    )
    victim = Victim(uid=PodUid("u-2"), key=PodKey("default", "low"), node=N1)
    decided(Preempt(UID, KEY, plan))
    decided(Preempt(UID, KEY, replace(plan, victims=(victim,))))
    [line] = lines()
    assert line.pop("time")
    assert line == {
        "level": "warning",
        "event": "preempt",
        "pod": "default/train",
        "uid": "u-1",
        "victims": ["default/low"],
        "victim_uids": ["u-2"],
        "violations": 0,
    }


def test_a_placement_is_logged_with_node_cards_and_token(lines: Lines) -> None:
    decision_log.set_up("info")
    decided(Bind(UID, KEY, N1, ALLOCATION))
    [line] = lines()
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "info",
        "event": "bind",
        "pod": "default/train",
        "uid": "u-1",
        "node": "n1",
        "cards": ["GPU-1", "GPU-2"],
        "token": "s-7",
    }


def test_of_a_pod_whose_containers_differ_each_ones_cards_are_logged(lines: Lines) -> None:
    decision_log.set_up("info")
    claims = tuple(
        ClaimCharge(container=ContainerRef(init, 1), cards=(card,))
        for init, card in zip((False, True), CARDS, strict=True)
    )
    decided(Bind(UID, KEY, N1, replace(ALLOCATION, claims=claims)))
    [line] = lines()
    assert line["cards"] == ["GPU-1", "GPU-2"]
    assert line["containers"] == {"container-1": ["GPU-1"], "init-1": ["GPU-2"]}


def test_a_pod_that_waits_is_logged_with_its_reason(lines: Lines) -> None:
    decision_log.set_up("info")
    decided(ReportWaiting(UID, KEY, Diagnosis(sentence='label "gpu": no number')))
    [line] = lines()
    assert (line["event"], line["pod"]) == ("waiting", "default/train")
    assert line["reason"] == 'label "gpu": no number'


def test_that_the_server_stored_a_decision_is_logged_with_its_node(lines: Lines) -> None:
    decision_log.set_up("debug")
    decided(ReportScheduled(UID, KEY, N1))
    [line] = lines()
    assert (line["event"], line["pod"], line["node"]) == ("bound", "default/train", "n1")


def test_what_others_did_is_a_warning(lines: Lines) -> None:
    decision_log.set_up("warning")
    decided(ReportPodWarning(UID, KEY, PodWarning.NOT_OURS, "not ours"), iteration=7)
    decided(ReportOvercommit(N1, GpuUuid("GPU-1"), True, "too much"))
    decided(ReportOvercommit(N1, GpuUuid("GPU-1"), False, "right again"))
    decided(ReportOvercommit(N1, None, True, "twice", Overuse.PORT, 50051))
    for change in (CardChange.FAILED, CardChange.RECOVERED):
        held = ((KEY, UID),)
        decided(ReportCardChange(N1, GpuUuid("GPU-1"), change, "GPU 0", held))
    trouble, overcommit, shared, card = lines()
    assert (card["event"], card["change"], card["card"]) == ("card", "GPUUnhealthy", "GPU-1")
    assert (card["level"], card["pods"]) == ("warning", ["default/train"])
    assert (shared["event"], shared["node"], shared["port"]) == ("shared port", "n1", 50051)
    assert (trouble["event"], trouble["reason"]) == ("pod warning", "AllocationNotOurs")
    assert (trouble["pod"], trouble["uid"], trouble["iteration"]) == ("default/train", "u-1", 7)
    assert (overcommit["event"], overcommit["node"]) == ("overcommit", "n1")
    assert (overcommit["card"], overcommit["message"]) == ("GPU-1", "too much")


def test_a_forced_deletion_is_a_warning_that_says_which_cards_are_held(lines: Lines) -> None:
    decision_log.set_up("warning")
    decided(Lingers(UID, KEY, N1, (GpuUuid("GPU-1"),), 42.00049))
    (line,) = lines()
    assert (line["event"], line["pod"], line["node"]) == ("forced deletion", "default/train", "n1")
    assert (line["cards"], line["for_s"]) == (["GPU-1"], 42.0)


def test_line_breaks_and_tracebacks_stay_within_their_line(lines: Lines) -> None:
    decision_log.set_up("info")
    decision_log.warn("inventory", message="a\nb")
    try:
        raise ValueError("broken\nbadly")
    except ValueError:
        logging.getLogger("anywhere").exception("it broke")
    warned, broke = lines()
    assert (warned["level"], warned["message"]) == ("warning", "a\nb")
    assert "ValueError: broken\nbadly" in broke["traceback"]


def test_a_line_says_which_turn_of_which_profile_it_came_from(lines: Lines) -> None:
    decision_log.set_up("info")
    about = {"profile": "kubeshare-scheduler", "iteration": 7, "ms": 0.25}
    decided(Bind(UID, KEY, N1, ALLOCATION), **about)
    [line] = lines()
    assert {name: line[name] for name in about} == about


def test_a_placement_is_one_line_and_none_where_only_warnings_are_wanted(lines: Lines) -> None:
    for level, wanted in (("info", ["bind"]), ("warning", [])):
        decision_log.set_up(level)
        decided(Bind(UID, KEY, N1, ALLOCATION))
        decided(ReportScheduled(UID, KEY, N1))
        assert [line["event"] for line in lines()] == wanted


def test_a_line_steers_no_terminal_and_loses_nothing(
    root_logger: None, capsys: pytest.CaptureFixture[str]
) -> None:
    decision_log.set_up("info")
    for said in ("ß \x1b[2J\x9b2J\u202e\n \U000e0001", "\x7f"):
        decided(ReportPodWarning(UID, KEY, PodWarning.UNREADABLE, said))
        decision_log.warn("odd", message=said)
        written = capsys.readouterr().err
        assert written.replace("\n", "").isprintable()
        about_pod, warned = (json.loads(line) for line in written.splitlines())
        assert said in about_pod.values()
        assert warned["message"] == said


def test_a_plugin_that_failed_is_one_line_with_its_traceback(lines: Lines) -> None:
    decision_log.set_up("info")
    frames = "/app/prices.py:7 in points\n/app/prices.py:3 in price"
    failure = LogPluginFailure("CheapNodes", "Score", "plugin CheapNodes failed: …", 3, frames)
    decided(failure, iteration=4)
    (line,) = lines()
    assert line["event"] == "plugin failed"
    assert (line["plugin"], line["extension_point"], line["times"]) == ("CheapNodes", "Score", 3)
    assert line["traceback"] == frames
