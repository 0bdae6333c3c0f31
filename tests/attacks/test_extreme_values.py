"""Numbers, names and sizes beyond what anybody means, by a user who may edit two namespaces.

In one of them the policy about labels does not look, so that all of it arrives at the scheduler.
"""

import json
from functools import partial
from http import HTTPStatus

import pytest

from tests.attacks.attack import Attack, Json, expect_eventually, gpu_pod, pods_of, refusal
from tests.attacks.attacked_cluster import ATTACKER, LAX

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

#: As labels take them: letters, digits, "-", "_" and "." with a letter or digit at both ends.
NUMBERS = (
    *("9223372036854775808", "1e999", "1e-9", "NaN", "Infinity", "0x10", "1_000", "00000", "1.0.0"),
    *("9" * 63, f"0.{'0' * 60}1", "1e308", "inf", "999999999", "0.0000000001", "1e0"),
)
#: Of these, what means an amount.
RIGHT = {"00000", NUMBERS[10], "0.0000000001"}
WANTED = ("gpu_request", "gpu_limit", "gpu_mem", "priority", "group_headcount", "group_threshold")


def odd(wanted: str, number: str) -> dict[str, str]:
    """Half a card otherwise, in a gang."""
    group = {"group_name": "g", "group_headcount": "2", "group_threshold": "1.0"}
    return {"gpu_request": "0.5", "gpu_limit": "1.0", **group, wanted: number}


async def test_no_number_stops_the_scheduler(attack: Attack) -> None:
    bodies = [
        gpu_pod(f"{wanted.replace('_', '-')}-{index}", odd(wanted, number))
        for wanted in WANTED
        for index, number in enumerate(NUMBERS)
    ]
    assert not [one for one in await attack.flood(bodies, LAX) if isinstance(one, Exception)]
    await attack.expect_victim_bound()
    for body in bodies:
        await attack.expect_eventually(
            body["metadata"]["name"],
            LAX,
            lambda pod: "nodeName" in pod["spec"] or bool(pod["status"].get("conditions")),
            30,
        )
    assert "sharedgpu/gpu_request" in await attack.expect_waiting("gpu-request-3", LAX)


def nested(pod: Json, levels: int) -> bytes:
    """A pod with what any user may write, and what kube-apiserver keeps as deep as it is."""
    fields = b'{"f:a":' * levels + b"{}" + b"}" * levels
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    pod["metadata"]["managedFields"] = [{**entry, "fieldsV1": "?"}]
    return json.dumps(pod).encode().replace(b'"?"', b'{"f:spec":%s}' % fields)


async def test_pods_nested_deeper_than_readers_go(attack: Attack, full_scale: bool) -> None:
    depths = (*(70, 900, 1100, 3000, 9900), *range(950, 1050, 5 if full_scale else 50))
    names = [f"{kind}-{depth}" for depth in depths for kind in ("ours", "other")]
    for depth in depths:
        ours, other = gpu_pod(f"ours-{depth}"), gpu_pod(f"other-{depth}", {})
        del other["spec"]["schedulerName"]
        for pod in (ours, other):
            await attack.mallory.request("POST", pods_of(ATTACKER), body=nested(pod, depth))
        await attack.expect_victim_bound()

    async def stored(name: str) -> Json:
        # In bytes: clients decode no objects that are nested so deep.
        answer = await attack.admin.request("GET", f"{pods_of(ATTACKER)}/{name}")
        return {"bound": b'"nodeName"' in answer.body}

    for depth in depths:
        await expect_eventually(
            partial(stored, f"ours-{depth}"), lambda pod: bool(pod["bound"]), 10
        )
    for name in names:
        await attack.mallory.request("DELETE", f"{pods_of(ATTACKER)}/{name}")


async def test_what_is_no_label_does_not_get_past_kubernetes(attack: Attack) -> None:
    for number in ("\u0661", "-1", " 1", "1\u00a0", "\u00bd", "1" * 64):
        error = await refusal(attack.create(gpu_pod("odd", {"gpu_request": number}), LAX))
        assert error.status == HTTPStatus.UNPROCESSABLE_ENTITY


async def test_policies_refuse_what_the_scheduler_would_hold(attack: Attack) -> None:
    for number in NUMBERS:
        if number not in RIGHT:
            error = await refusal(attack.create(gpu_pod("odd", {"gpu_request": number})))
            assert "sharedgpu/gpu_request" in error.message


async def test_the_largest_pods_that_there_can_be_cost_the_others_nothing(attack: Attack) -> None:
    bodies = []
    for number in range(20):
        body = gpu_pod(f"large-{number}", annotations={f"a/{number}": "x" * 250_000})
        body["metadata"]["labels"] |= {
            f"{'l' * 250}.x/{'n' * 59}{index:04}": "v" * 63 for index in range(200)
        }
        bodies.append(body)
    assert not [one for one in await attack.flood(bodies) if isinstance(one, Exception)]
    await attack.expect_victim_bound()
    for body in bodies:
        await attack.expect_bound(body["metadata"]["name"])


async def test_many_resource_names_are_asked_for_and_each_pod_says_which_is_missing(
    attack: Attack,
) -> None:
    bodies = []
    for number in range(100):
        amounts = {f"example.com/r{number}": "9223372036854775807"}
        container = {"name": "main", "image": "busybox", "resources": {"limits": amounts}}
        bodies.append(gpu_pod(f"asks-{number}", containers=[container]))
    assert not [one for one in await attack.flood(bodies) if isinstance(one, Exception)]
    await attack.expect_victim_bound()
    await attack.expect_waiting("asks-99", text="example.com/r99")


async def test_gates_that_open_and_claims_that_nobody_fills_hold_their_pod_alone(
    attack: Attack,
) -> None:
    claim = {"name": "c", "resourceClaimName": "none"}
    await attack.create(gpu_pod("claims", resourceClaims=[claim]))
    for number in range(30):
        await attack.create(gpu_pod(f"gated-{number}", schedulingGates=[{"name": "a/b"}]))
    await attack.expect_victim_bound()
    await attack.expect_waiting("claims", text='resourceclaim.resource.k8s.io "none" not found')
    for number in range(30):
        opened = {"spec": {"schedulingGates": None}}
        path = f"{pods_of(ATTACKER)}/gated-{number}"
        await attack.mallory.merge_patch(path, opened)
        error = await refusal(
            attack.mallory.merge_patch(path, {"spec": {"schedulingGates": [{"name": "a/b"}]}})
        )
        assert error.status == HTTPStatus.UNPROCESSABLE_ENTITY
    for number in range(30):
        await attack.expect_bound(f"gated-{number}")
