"""Results that only the scheduler writes, and places that only it gives, forged in every way."""

import json
from http import HTTPStatus

import pytest

from tests.attacks.attack import Attack, Json, gpu_pod, pods_of, refusal
from tests.attacks.attacked_cluster import ATTACKER, VICTIM

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

SHARE = {"gpu_request": "0.5", "gpu_limit": "1.0"}
RESULTS = (
    "gpu_uuid", "gpu_model", "gpu_mem", "cell_id", "gpu_manager_port", "allocation", "fence",
    "container-0.gpu_uuid", "init-12.gpu_uuid", "gpu_mem_mib", "mps_memory",
    "mps_thread_percentage",
)  # fmt: skip
ONLY = "only kubeshare-scheduler writes"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


def annotated(name: str, value: str | None = "GPU-of-somebody") -> Json:
    """With `gpu_uuid` as well: alone, some of the others are taken for labels."""
    results = {f"sharedgpu/{name}": value, "sharedgpu/gpu_uuid": value}
    return {"metadata": {"annotations": results}}


async def test_no_result_comes_with_a_pod(attack: Attack) -> None:
    for place in ({}, {"nodeName": "n1"}):
        for name in RESULTS:
            body = gpu_pod("p", SHARE, **place)
            body["metadata"]["annotations"] = annotated(name)["metadata"]["annotations"]
            assert ONLY in (await refusal(attack.create(body))).message


async def test_no_result_is_written_later_in_any_way(attack: Attack) -> None:
    await attack.create(gpu_pod("p", SHARE))
    placed = await attack.expect_bound("p")
    path = f"{pods_of(ATTACKER)}/p"
    before = placed["metadata"]["annotations"]
    for name in RESULTS:
        change = annotated(name)
        error = await refusal(attack.mallory.merge_patch(path, change))
        assert ONLY in error.message
        applied = {"apiVersion": "v1", "kind": "Pod", **change}
        asked = attack.mallory.request(
            "PATCH",
            path,
            query={"fieldManager": "mine", "force": "true"},
            body=json.dumps(applied).encode(),
            content_type=APPLY,
        )
        assert ONLY in (await refusal(asked)).message
        key = f"sharedgpu~1{name}"
        operations = [{"op": "add", "path": f"/metadata/annotations/{key}", "value": "x"}]
        if f"sharedgpu/{name}" in before:
            operations = [{"op": "remove", "path": f"/metadata/annotations/{key}"}]
        asked = attack.mallory.request("PATCH", path, body=operations, content_type=JSON_PATCH)
        error = await refusal(asked)
        assert ONLY in error.message or "sharedgpu/" in error.message
    fresh = await attack.pod("p")
    fresh["metadata"]["annotations"] = {"sharedgpu/gpu_uuid": "GPU-of-somebody"}
    assert ONLY in (await refusal(attack.mallory.replace(path, fresh))).message
    assert (await attack.pod("p"))["metadata"]["annotations"] == before


async def test_edit_may_not_write_the_status_of_pods(attack: Attack) -> None:
    await attack.create(gpu_pod("p", SHARE))
    await attack.expect_bound("p")
    path = f"{pods_of(ATTACKER)}/p/status"
    for change in (annotated("gpu_uuid"), {"status": {"phase": "Succeeded"}}):
        error = await refusal(attack.mallory.merge_patch(path, change))
        assert error.status == HTTPStatus.FORBIDDEN


async def test_labels_of_a_bound_pod_change_no_charge(attack: Attack) -> None:
    await attack.create(gpu_pod("p", {"gpu_request": "1.0", "gpu_limit": "1.0"}))
    card = (await attack.expect_bound("p"))["metadata"]["annotations"]["sharedgpu/gpu_uuid"]
    path = f"{pods_of(ATTACKER)}/p"
    for request in ("0.001", "0", None, "x"):
        labels = {"sharedgpu/gpu_request": request, "sharedgpu/gpu_limit": request}
        await attack.mallory.merge_patch(path, {"metadata": {"labels": labels}})
    bodies = [gpu_pod(f"v{one}", {"gpu_request": "1.0", "gpu_limit": "1.0"}) for one in range(15)]
    for body in bodies:
        await attack.victor.create(pods_of(VICTIM), body)
    taken = set()
    for body in bodies:
        pod = await attack.expect_bound(body["metadata"]["name"], VICTIM)
        taken.add(pod["metadata"]["annotations"]["sharedgpu/gpu_uuid"])
    assert len(taken) == 15
    assert card not in taken
    await attack.clean()


async def test_no_user_binds(attack: Attack) -> None:
    await attack.create(gpu_pod("p", {"gpu_request": "9", "gpu_limit": "9"}))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": {"sharedgpu/gpu_uuid": "GPU-1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    for path in (f"{pods_of(ATTACKER)}/p/binding", f"/api/v1/namespaces/{ATTACKER}/bindings"):
        error = await refusal(attack.mallory.create(path, binding))
        assert error.status == HTTPStatus.FORBIDDEN
    # An administrator's Binding may not say which card it is either.
    error = await refusal(attack.admin.create(f"{pods_of(ATTACKER)}/p/binding", binding))
    assert ONLY in error.message


async def test_a_pod_that_names_its_node_gets_no_card(attack: Attack) -> None:
    await attack.create(gpu_pod("p", SHARE, nodeName="n1"))
    await attack.expect_victim_bound()
    assert "sharedgpu/gpu_uuid" not in (await attack.pod("p"))["metadata"].get("annotations", {})
    error = await refusal(
        attack.mallory.merge_patch(f"{pods_of(ATTACKER)}/p", annotated("gpu_uuid"))
    )
    assert ONLY in error.message


async def test_pods_that_come_back_under_their_name_at_once(
    attack: Attack, full_scale: bool
) -> None:
    path = f"{pods_of(ATTACKER)}/p"
    for _ in range(200 if full_scale else 25):
        await attack.create(gpu_pod("p", {"gpu_request": "1.0", "gpu_limit": "1.0"}))
        await attack.mallory.delete(path, grace_period_s=0)
    await attack.create(gpu_pod("p", {"gpu_request": "1.0", "gpu_limit": "1.0"}))
    await attack.expect_bound("p")
    await attack.expect_no_card_given_twice()


async def test_finalizers_keep_a_pods_cards_and_nothing_else(attack: Attack) -> None:
    bodies = [gpu_pod(f"p{one}", {"gpu_request": "0.5", "gpu_limit": "1.0"}) for one in range(20)]
    for body in bodies:
        body["metadata"]["finalizers"] = ["example.com/stays"]
    await attack.flood(bodies)
    for body in bodies:
        await attack.expect_bound(body["metadata"]["name"])
        await attack.mallory.delete(f"{pods_of(ATTACKER)}/{body['metadata']['name']}")
    await attack.expect_victim_bound()
    await attack.expect_no_card_given_twice()
