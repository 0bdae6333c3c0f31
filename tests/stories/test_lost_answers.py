"""Answers to Bindings get lost, come late, or say no: one placement, the books exact."""

import pytest

from tests.stories.conftest import EVENTS, PODS, Stage, annotations, card, gpu

CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


async def the_card_is_used_exactly(stage: Stage) -> None:
    """Beside a pod of 0.6 there is room for 0.4, and not for more."""
    await stage.create("rest", gpu("0.4"))
    await stage.expect_running("rest")
    await stage.create("more", gpu("0.001"))
    assert await stage.expect_reasons("more") == "0/1 nodes are available: 1 Insufficient GPU."


async def scheduled_events(stage: Stage, name: str) -> int:
    events = await stage.client.get(EVENTS)
    return sum(
        event["regarding"]["name"] == name and event["reason"] == "Scheduled"
        for event in events["items"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"status": 0},
        pytest.param({"status": 500}, marks=pytest.mark.long),
        {"status": 503, "retry_after_s": 1, "times": 1},
        pytest.param(
            {"status": 429, "reason": "TooManyRequests", "retry_after_s": 1},
            marks=pytest.mark.long,
        ),
    ],
    ids=["cut", "500", "503", "429"],
)
async def test_a_binding_that_was_not_stored_is_sent_again_unchanged(
    stage: Stage, how: dict[str, object]
) -> None:
    stage.spoil_binds(**how)
    await stage.create("a", gpu("0.6"))
    await stage.expect_running("a")
    first, second = stage.bindings("a")
    assert first == second
    await the_card_is_used_exactly(stage)


@pytest.mark.parametrize(
    "status", [0, *(pytest.param(code, marks=pytest.mark.long) for code in (500, 429))]
)
async def test_a_binding_that_was_stored_although_the_answer_was_bad_counts_once(
    stage: Stage, status: int
) -> None:
    stage.spoil_binds(status=status, applies_first=True)
    await stage.create("a", gpu("0.6"))
    await stage.expect_running("a")
    await the_card_is_used_exactly(stage)
    sent = stage.bindings("a")
    assert all(one == sent[0] for one in sent)
    assert await scheduled_events(stage, "a") == 1


async def test_a_slow_answer_holds_up_nobody(stage: Stage) -> None:
    stage.spoil_binds(only_slow=True, delay_s=2.0)
    await stage.create("slow", gpu("0.6"))
    await stage.expect_sent(lambda: bool(stage.bindings("slow")))
    await stage.create("quick", gpu("0.3"))
    await stage.expect_running("quick")
    assert "nodeName" not in (await stage.pod("slow"))["spec"]
    await stage.expect_running("slow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "message",
    [
        "Operation cannot be fulfilled on pods/binding: pod a has non-empty .spec.schedulingGates",
        pytest.param(
            "Precondition failed: UID in precondition: 1, UID in object meta: 2",
            marks=pytest.mark.long,
        ),
    ],
    ids=["gates", "uid"],
)
async def test_after_a_definite_refusal_the_pod_is_decided_anew(stage: Stage, message: str) -> None:
    stage.spoil_binds(status=409, reason="Conflict", message=message)
    await stage.create("a", gpu("0.6"))
    assert message in await stage.expect_waiting("a")
    await stage.expect_running("a")
    tokens = {one["metadata"]["annotations"]["sharedgpu/allocation"] for one in stage.bindings("a")}
    assert len(tokens) == 2
    await the_card_is_used_exactly(stage)


async def test_already_assigned_to_somebody_else_frees_what_we_held(stage: Stage) -> None:
    stage.spoil_binds(status=503)
    await stage.create("a", gpu("0.6"))
    await stage.expect_sent(lambda: bool(stage.bindings("a")))
    theirs = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    await stage.client.create(f"{PODS}/a/binding", theirs)
    pod = await stage.expect_running("a")
    assert card(pod) == ""
    await stage.create("whole", gpu("1"))
    await stage.expect_running("whole")


async def test_already_assigned_is_ours_when_the_pod_carries_our_token(stage: Stage) -> None:
    refusal = 'pod a is already assigned to node "n1"'
    stage.spoil_binds(applies_first=True, status=409, reason="Conflict", message=refusal)
    await stage.create("a", gpu("0.6"))
    await stage.expect_running("a")
    await the_card_is_used_exactly(stage)
    assert len(stage.bindings("a")) == 1


@pytest.mark.slow
async def test_a_pod_that_is_being_deleted_gives_its_card_back(stage: Stage) -> None:
    stage.spoil_binds(status=503)
    await stage.create("a", gpu("0.6"))
    await stage.client.merge_patch(f"{PODS}/a", {"metadata": {"finalizers": ["example.com/keep"]}})
    await stage.expect_sent(lambda: bool(stage.bindings("a")))
    await stage.delete("a")
    await stage.create("whole", gpu("1"))
    await stage.expect_running("whole")
    assert "deletionTimestamp" in (await stage.pod("a"))["metadata"]
    await stage.client.merge_patch(f"{PODS}/a", {"metadata": {"finalizers": None}})


async def test_a_pod_deleted_while_its_bind_is_in_flight_leaves_nothing(stage: Stage) -> None:
    stage.spoil_binds(status=503)
    await stage.create("a", gpu("1"))
    await stage.expect_sent(lambda: bool(stage.bindings("a")))
    await stage.delete("a")
    await stage.create("whole", gpu("1"))
    await stage.expect_running("whole")
    assert len(stage.bindings("a")) == 1


async def test_a_pod_deleted_after_its_bind_was_stored_holds_its_card_until_it_is_gone(
    stage: Stage,
) -> None:
    stage.spoil_binds(status=0, applies_first=True, delay_s=0.2)
    brief = {"kubeshare.sim/stop-seconds": "0.3"}
    await stage.create("a", gpu("1"), annotations=brief)
    await stage.expect_sent(lambda: bool(stage.bindings("a")))
    await stage.expect_eventually("a", lambda pod: bool(pod["spec"].get("nodeName")))
    await stage.delete("a")
    await stage.create("next", gpu("1"))
    await stage.expect_running("next")


async def test_a_binding_of_the_former_pod_does_not_reach_the_next_one_of_its_name(
    stage: Stage,
) -> None:
    stage.spoil_binds(only_slow=True, delay_s=0.3)
    await stage.create("a", gpu("0.6"))
    await stage.expect_sent(lambda: bool(stage.bindings("a")))
    await stage.delete("a")
    await stage.create("a", gpu("0.9"))
    pod = await stage.expect_running("a")
    first, second = stage.bindings("a")
    assert first["metadata"]["uid"] != second["metadata"]["uid"] == pod["metadata"]["uid"]
    assert annotations(pod)["sharedgpu/gpu_mem"] == str((16 << 30) * 9 // 10)
    await stage.create("rest", gpu("0.1"))
    await stage.expect_running("rest")
