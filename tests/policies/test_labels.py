"""Labels and annotations `sharedgpu/*` of new pods, and pods that name no scheduler."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kubeshare_py.configuration.scheduler import DEFAULT_DIALECTS
from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE, DialectTable
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.edges.kube.errors import KubeError
from tests.admission.any_labels import labels_and_annotations
from tests.admission.patched import env_of
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import kubectl
from tests.policies.conftest import expect_accepted
from tests.policies.environment import (
    GUARDED,
    POLICY,
    WEBHOOK,
    Clients,
    a_pod,
    clients,
    pods_of,
)
from tests.scale import examples

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

#: Those of the chart's profile, which names none.
DIALECTS = DialectTable(
    [one for named in DEFAULT_DIALECTS if isinstance(one := IN_TREE[named.name](), Dialect)]
)
NOT_THERE = "MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on"
SHARE = {"sharedgpu/gpu_request": "0.5"}
TYPO = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_requset": "0.5"}
DEFAULT: Json = {"schedulerName": "default-scheduler"}


@pytest.fixture
async def cluster(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Clients]:
    async with clients(installed_plane, tmp_path) as found:
        yield found


async def refusal(cluster: Clients, pod: Json, namespace: str) -> str:
    """Why the pod would not be stored; "" if it would."""
    try:
        await cluster.would_be(pod, namespace)
    except KubeError as error:
        if (error.status, error.reason) != (422, "Invalid"):
            raise
        return error.message.partition("request: ")[2]
    return ""


def known(said: str) -> str:
    """The sentence without the guess, or the list, of what was meant."""
    head, unknown, _ = said.partition(" is not known; ")
    return head + unknown


@settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels_and_annotations())
async def test_the_policy_refuses_what_the_scheduler_would_hold(
    cluster: Clients, given: tuple[dict[str, str], dict[str, str]]
) -> None:
    labels, annotations = given
    pod = a_pod(labels)
    pod["metadata"]["annotations"] = annotations
    problem = str(first_problem(labels, annotations, DIALECTS) or "")
    assert known(await refusal(cluster, pod, POLICY)) == known(problem)


async def test_a_misspelt_key_is_named_with_those_that_are_known(cluster: Clients) -> None:
    said = await refusal(cluster, a_pod(TYPO), POLICY)
    assert said.startswith("label sharedgpu/gpu_requset is not known; labels are sharedgpu/")
    webhook = await refusal(cluster, a_pod(TYPO), WEBHOOK)
    assert webhook.endswith("gpu_requset is not known; did you mean sharedgpu/gpu_request?")


@pytest.mark.parametrize(
    "changed",
    [
        {"kubeshare/gpu_limit": "0.3"},
        {"kubeshare/gpu_request": "1.5"},
        {"kubeshare/gpu_mem": "1Gi"},
        {"kubeshare/gpu_mem": ""},
        {"kubeshare/sched_affinity": "a b"},
        {"kubeshare/GPUID": "abcde"},
    ],
)
async def test_annotations_of_sharepods_are_looked_at(
    cluster: Clients, changed: dict[str, str]
) -> None:
    """By policy and by webhook, in the scheduler's words."""
    pod = a_pod({})
    whole = {"gpu_request": "0.5", "gpu_limit": "1.0", "gpu_mem": "1073741824"}
    own = {f"kubeshare/{key}": text for key, text in whole.items()} | changed
    pod["metadata"]["annotations"] = own
    problem = str(first_problem({}, own, DIALECTS) or "")
    assert (problem == "") == ("kubeshare/GPUID" in changed)
    assert await refusal(cluster, pod, POLICY) == problem
    assert await refusal(cluster, pod, WEBHOOK) == problem
    if not problem:
        for namespace in (POLICY, WEBHOOK):
            found = env_of(await cluster.would_be(pod, namespace))
            assert "sharedgpu/gpu_uuid" in str(found)


@pytest.mark.parametrize(
    ("model", "is_accepted"),
    [
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-2g.48gb", True),
        *(("NVIDIA-TITAN-X-(Pascal)", True), ("Quadro RTX 6000/8000", True)),
        *(("x" * 253, True), ("x" * 254, False)),
    ],
)
async def test_models_are_named_by_annotation_where_labels_cannot(
    cluster: Clients, model: str, is_accepted: bool
) -> None:
    pod = a_pod(SHARE)
    pod["metadata"]["annotations"] = {"sharedgpu/gpu_models": model}
    assert (await refusal(cluster, pod, POLICY) == "") is is_accepted
    assert (await refusal(cluster, pod, WEBHOOK) == "") is is_accepted
    pod = a_pod({**SHARE, "sharedgpu/gpu_model": model})
    with pytest.raises(KubeError, match="Invalid value"):
        await cluster.would_be(pod, POLICY)


async def test_many_labels_and_long_annotations_cost_little(cluster: Clients) -> None:
    pod = a_pod({**SHARE, **{f"sharedgpu.io/label-{number}": "x" for number in range(300)}})
    long = {f"shared-gpu/annotation-{number}": "x" * 200 for number in range(600)}
    for models in ("A100," * 204 + "A100", ",".join(f"{'a-b*' * 14}{at:02}" for at in range(16))):
        both = {"sharedgpu/gpu_models": models, "sharedgpu/gpu_models_denied": models}
        pod["metadata"]["annotations"] = {**long, **both}
        meta = pod["metadata"]
        problem = first_problem(meta["labels"], meta["annotations"], DIALECTS)
        assert await refusal(cluster, pod, POLICY) == str(problem or "")


@pytest.fixture
async def old(cluster: Clients, installed_plane: ControlPlane) -> AsyncIterator[str]:
    """The path of a pod that nothing has looked at, as those are that were there before."""
    pod = a_pod(TYPO)
    pod["metadata"]["namespace"] = POLICY
    # The scheduler's own writes are not looked at.
    me = ("--as=system:serviceaccount:kube-system:kubeshare-scheduler", "--as-group=system:masters")
    await kubectl(installed_plane, *me, "create", "--filename=-", given=json.dumps(pod))
    path = f"{pods_of(POLICY)}/p"
    yield path
    await cluster.admin.delete(path, grace_period_s=0)


async def test_a_pod_that_was_there_before_is_changed_otherwise_as_ever(
    cluster: Clients, old: str
) -> None:
    for change in ({"labels": {"app": "x"}}, {"annotations": {"a": "b"}}, {"finalizers": ["a/b"]}):
        await expect_accepted(cluster.admin.merge_patch(old, {"metadata": change}))
    await expect_accepted(
        cluster.admin.merge_patch(f"{old}/status", {"status": {"phase": "Pending"}})
    )
    await expect_accepted(cluster.admin.merge_patch(old, {"metadata": {"finalizers": None}}))


async def test_a_change_of_our_keys_must_leave_them_right(cluster: Clients, old: str) -> None:
    worse = {"metadata": {"labels": {"sharedgpu/gpu_mem": "1Gi"}}}
    with pytest.raises(KubeError, match="gpu_requset is not known"):
        await cluster.admin.merge_patch(old, worse)
    right = {"sharedgpu/gpu_requset": None, "sharedgpu/gpu_request": "0.5"}
    await cluster.admin.merge_patch(old, {"metadata": {"labels": right}})
    wrong = {"metadata": {"annotations": {"sharedgpu/gpu_request": "1"}}}
    with pytest.raises(KubeError, match="is a label, not an annotation"):
        await cluster.admin.merge_patch(old, wrong)


async def test_taking_a_key_away_must_leave_the_others_right(cluster: Clients, old: str) -> None:
    share = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_mem": "1Gi"}
    right = {**dict.fromkeys(TYPO), **share}
    await cluster.admin.merge_patch(old, {"metadata": {"labels": right}})
    alone = {"metadata": {"labels": {"sharedgpu/gpu_request": None}}}
    with pytest.raises(KubeError, match="sharedgpu/gpu_mem alone asks for no card"):
        await cluster.admin.merge_patch(old, alone)


async def test_a_pod_that_has_its_node_is_not_looked_at(cluster: Clients, old: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    await cluster.admin.create(f"{old}/binding", body)
    worse = {"metadata": {"labels": {"sharedgpu/gpu_mem": "much"}}}
    await expect_accepted(cluster.admin.merge_patch(old, worse))


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
async def test_a_pod_that_names_no_scheduler_and_has_our_keys_is_ours(
    cluster: Clients, namespace: str
) -> None:
    if namespace == POLICY and not cluster.has_policies:
        pytest.skip(NOT_THERE)
    # Policies run in an order that differs from request to request.
    for _ in range(20):
        made = await cluster.would_be(a_pod(SHARE, **DEFAULT), namespace)
        assert made["spec"]["schedulerName"] == "kubeshare-scheduler"
        told = env_of(made)["NVIDIA_VISIBLE_DEVICES"]
        assert told == "metadata.annotations['sharedgpu/gpu_uuid']"
        names = [one["name"] for one in made["spec"]["containers"][0]["env"]]
        assert len(names) == len({*names}) == 7


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK])
@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({"app": "x"}, DEFAULT),
        (SHARE, {"schedulerName": "another"}),
        (TYPO, {"schedulerName": "another"}),
        (SHARE, {**DEFAULT, "nodeName": "n1"}),
    ],
)
async def test_other_pods_keep_the_scheduler_that_they_have(
    cluster: Clients, namespace: str, labels: Json, spec: Json
) -> None:
    made = await cluster.would_be(a_pod(labels, **spec), namespace)
    assert made["spec"]["schedulerName"] == spec["schedulerName"]


def workload(kind: str, labels: Json, **spec: object) -> Json:
    """One whose pods have these labels."""
    group = "batch/v1" if "Job" in kind else "apps/v1"
    policy = {"restartPolicy": "Never"} if "Job" in kind else {}
    containers = [{"name": "main", "image": "busybox"}]
    metadata = {"labels": {**labels, **({} if "Job" in kind else {"app": "w"})}}
    template = {"metadata": metadata, "spec": {"containers": containers, **policy, **spec}}
    own: Json = {"template": template}
    if kind == "CronJob":
        own = {"schedule": "@daily", "jobTemplate": {"spec": own}}
    elif kind != "Job":
        own["selector"] = {"matchLabels": {"app": "w"}}
    if kind == "StatefulSet":
        own["serviceName"] = "w"
    made = {"name": "w", "namespace": POLICY}
    return {"apiVersion": group, "kind": kind, "metadata": made, "spec": own}


async def warned(plane: ControlPlane, made: Json) -> str:
    """What kubectl warns of when it is created; "" if of nothing."""
    dry = ("create", "--dry-run=server", "--filename=-")
    try:
        await kubectl(plane, *dry, given=json.dumps(made), silent=True)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"])
async def test_who_writes_a_template_is_warned_of_its_pods(
    cluster: Clients, installed_plane: ControlPlane, kind: str
) -> None:
    said = await warned(installed_plane, workload(kind, TYPO))
    assert "its pods will be refused: label sharedgpu/gpu_requset is not known; " in said
    assert "denied request" not in said
    for labels, spec in ((SHARE, {}), ({"app": "w"}, {}), (TYPO, {"schedulerName": "another"})):
        assert await warned(installed_plane, workload(kind, labels, **spec)) == ""


async def test_a_group_that_is_not_described_is_taken_and_warned_of(
    cluster: Clients, installed_plane: ControlPlane
) -> None:
    advice = "sharedgpu/group_name makes no group without sharedgpu/group_headcount and "
    group = {
        "sharedgpu/group_name": "g",
        "sharedgpu/group_headcount": "2",
        "sharedgpu/group_threshold": "1",
    }
    for missing in ("sharedgpu/group_headcount", "sharedgpu/group_threshold"):
        labels = {key: text for key, text in (SHARE | group).items() if key != missing}
        pod = a_pod(labels)
        pod["metadata"]["namespace"] = POLICY
        assert advice in await warned(installed_plane, pod)
        assert advice in await warned(installed_plane, workload("Job", labels))
    pod["metadata"]["labels"] |= group
    assert await warned(installed_plane, pod) == ""


async def test_memory_of_a_few_bytes_is_taken_and_warned_of(
    cluster: Clients, installed_plane: ControlPlane
) -> None:
    few = {**SHARE, "sharedgpu/gpu_mem": "8"}
    pod = a_pod(few)
    pod["metadata"]["namespace"] = POLICY
    advice = "sharedgpu/gpu_mem is 8 bytes; units are written behind the number, as in 8Gi"
    assert advice in await warned(installed_plane, pod)
    assert advice in await warned(installed_plane, workload("Job", few))
    for memory in ("8Gi", "0", "1000000"):
        pod["metadata"]["labels"]["sharedgpu/gpu_mem"] = memory
        assert await warned(installed_plane, pod) == ""
    pod["metadata"]["labels"] |= {"sharedgpu/gpu_mem": "8", "app": "x"}
    pod["spec"]["schedulerName"] = "another"
    assert await warned(installed_plane, pod) == ""
