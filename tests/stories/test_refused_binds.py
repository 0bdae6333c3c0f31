"""The API server refuses to bind pods: the reason is reported, and other nodes are tried."""

import asyncio
from functools import partial

import pytest

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.scheduling.explain.explanation import why
from tests.patience import PATIENCE_S
from tests.stories.conftest import PODS, Stage, gpu, scheduled_condition

POLICY = (
    "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'maintenance' with binding 'maintenance' "
    "denied request: n1 is under maintenance"
)
NO_RIGHT = 'User "scheduler" cannot create resource "pods/binding" in API group ""'
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
REFUSED_ON_N1 = "binding to n1 was refused: "
CLUSTER = (
    "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]},"
    " {name: n2, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"
)


@pytest.mark.slow
async def test_a_node_that_a_policy_refuses_is_left_for_another(stage: Stage) -> None:
    stage.spoil_binds(status=403, reason="Forbidden", message=POLICY, times=2)
    await stage.create("a", gpu("0.6"))
    told = await stage.expect_waiting("a", f"{REFUSED_ON_N1}403 Forbidden: {POLICY}")
    assert told.endswith("n1 is under maintenance")
    event = await stage.expect_event("a", "FailedScheduling")
    assert POLICY in event["note"]
    assert (await stage.expect_running("a"))["spec"]["nodeName"] == "n2"
    assert [one["target"]["name"] for one in stage.bindings("a")] == ["n1", "n1", "n2"]
    # What was charged on n1 is free again.
    await stage.create("all", gpu("1"))
    assert (await stage.expect_running("all"))["spec"]["nodeName"] == "n1"


@pytest.mark.slow
async def test_without_the_right_no_node_is_better_than_another(stage: Stage) -> None:
    stage.spoil_binds(status=403, reason="Forbidden", message=NO_RIGHT, times=3)
    await stage.create("a", gpu("0.6"))
    await stage.expect_waiting("a", NO_RIGHT)
    await stage.expect_running("a")
    assert {one["target"]["name"] for one in stage.bindings("a")} == {"n1"}
    assert len(stage.bindings("a")) == 4


@pytest.mark.slow
async def test_an_open_outcome_is_told_while_the_same_binding_is_sent_again(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    stage.spoil_binds(status=503, reason="ServiceUnavailable", message="no leader", times=2)
    async with stage.scheduler() as machine:
        await stage.create("a", gpu("0.6"))
        message = await stage.expect_waiting("a", "is not confirmed, and sent again: 503")
        assert message.endswith("503 ServiceUnavailable: no leader")
        found = why(machine, PodKey("default", "a"))
        assert found is not None
        if found.pod.state == "assumed":  # unless the next try was quicker
            assert "sent again: 503 ServiceUnavailable: no leader" in found.message
        await stage.expect_running("a")
        assert machine.attempts.failed == {"kubeshare-scheduler": 2}
    first, second, third = stage.bindings("a")
    assert first == second == third
    assert scheduled_condition(await stage.pod("a"))["status"] == "True"


@pytest.mark.slow
async def test_a_stored_binding_whose_answers_are_lost_keeps_its_condition(stage: Stage) -> None:
    stage.spoil_binds(status=503, reason="ServiceUnavailable", applies_first=True)
    stage.spoil_binds(status=503, reason="ServiceUnavailable", times=2)
    await stage.create("a", gpu("0.6"))
    await stage.expect_running("a")
    await stage.create("b", gpu("0.6"))
    await stage.expect_running("b")
    assert scheduled_condition(await stage.pod("a"))["status"] == "True"


@pytest.mark.real_only("the embedded API server has no admission policies")
async def test_a_policy_of_a_third_party_keeps_pods_from_one_node(empty_stage: Stage) -> None:
    stage, spec = (
        empty_stage,
        {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "object.target.name != 'n1'",
                    "message": "n1 is under maintenance",
                    "reason": "Forbidden",
                }
            ],
        },
    )
    policy = {"metadata": {"name": "maintenance"}, "spec": spec}
    binding = {
        "metadata": {"name": "maintenance"},
        "spec": {"policyName": "maintenance", "validationActions": ["Deny"]},
    }
    await stage.client.create(POLICIES, policy)
    try:
        await stage.client.create(BINDINGS, binding)
        await expect_policy(stage)
        async with stage.scheduler() as machine:
            await stage.create("a", gpu("0.6"))
            message = await stage.expect_waiting("a", REFUSED_ON_N1)
            assert "403 Forbidden" in message
            assert message.endswith("denied request: n1 is under maintenance")
            assert (await stage.expect_running("a"))["spec"]["nodeName"] == "n2"
            assert [one["target"]["name"] for one in stage.bindings("a")] == ["n1", "n1", "n2"]
            await stage.create("all", gpu("1"))
            only = "to which the API server refused to bind the pod"
            message = await stage.expect_waiting("all", only)
            assert "The API server refused to bind it to n1: 403 Forbidden" in message
            assert "1 Insufficient GPU" in message
            found = why(machine, PodKey("default", "all"))
            assert found is not None
            assert "Other nodes are tried for " in found.message
    finally:
        for path in (BINDINGS, POLICIES):
            await stage.client.delete(f"{path}/maintenance")


async def expect_policy(stage: Stage) -> None:
    """Wait until the API server refuses Bindings to n1; nothing is stored."""
    await stage.create("probe", schedulerName="nobody")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "probe"},
        "target": {"kind": "Node", "name": "n1"},
    }
    dry = partial(stage.client.create, f"{PODS}/probe/binding", body, {"dryRun": "All"})
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await dry()
            except KubeError as error:
                if "under maintenance" in error.message:
                    break
                raise
            await stage.client.get(f"{PODS}/probe")
    await stage.delete("probe")
