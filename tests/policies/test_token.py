"""What a stolen token of the scheduler's account can do: what its code does, and no more."""

import asyncio
import base64
import datetime
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path
from string import ascii_letters, digits

import pytest

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Evict, Nominate
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.certificates import API_SERVICES
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites
from kubeshare_py.edges.scheduler.writes.kube_api import evict, nominate
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.manifests.reports import (
    ReportedEvent,
    disruption_patch,
    event_body,
    nomination_patch,
    regarding_part,
    regarding_pod,
    series_patch,
    waiting_patch,
)
from tests.controlplane.cleaning import clean, ship_lease
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json, only
from tests.patience import PATIENCE_S
from tests.policies.conftest import LEASES, PODS, binding, expect_accepted, pod, refused

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
SYSTEM = "/api/v1/namespaces/kube-system/pods"
SERVICE = "v1.state.kubeshare.io"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
#: As many short keys as the annotations of one pod have room for.
MANY = ["".join(three) for three in islice(product(ascii_letters + digits, repeat=3), 87_000)]


RESULTS: Json = {"annotations": {"sharedgpu/allocation": "{}", "sharedgpu/gpu_uuid": "GPU-1"}}
STARTED = {"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}


def condition(kind: str, status: str, reason: str) -> Json:
    return {"type": kind, "status": status, "reason": reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thief:
    """Holds the scheduler's token, and asks the API server; `admin` sees to what is there."""

    admin: KubeClient
    client: KubeClient

    async def bind(self, name: str, metadata: Json) -> Json:
        """Bind a pod of `default` with this metadata of the Binding."""
        body = binding(name)
        return await self.client.create(
            f"{PODS}/{name}/binding", {**body, "metadata": {"name": name, **metadata}}
        )


@pytest.fixture
async def thief(plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Thief]:
    """Pods of ours: `waits`, `runs`; pods of others: `theirs`, `runs-elsewhere`."""
    assert plane is not None
    own = plane.secrets.write_kubeconfig(tmp_path / "stolen", plane.url, SCHEDULER)
    async with (
        KubeClient(load(str(plane.kubeconfig))) as admin,
        KubeClient(load(str(own))) as client,
    ):
        await clean(admin)
        found = Thief(admin=admin, client=client)
        for name in ("waits", "runs"):
            await admin.create(PODS, pod(name))
        for name in ("theirs", "runs-elsewhere"):
            await admin.create(PODS, of_another(name))
        await found.bind("runs", RESULTS)
        await admin.create(f"{PODS}/runs-elsewhere/binding", binding("runs-elsewhere"))
        yield found


def of_another(name: str) -> Json:
    """A pod of another scheduler."""
    body = pod(name)
    return {**body, "spec": {**body["spec"], "schedulerName": "default-scheduler"}}


async def key_and_uid(thief: Thief, name: str, path: str = PODS) -> tuple[PodKey, PodUid]:
    metadata = (await thief.admin.get(f"{path}/{name}"))["metadata"]
    return PodKey(metadata["namespace"], name), PodUid(metadata["uid"])


async def eviction(thief: Thief, name: str) -> Evict:
    key, uid = await key_and_uid(thief, name)
    return Evict(uid, key, "PreemptionByScheduler", "it gives way", "Preempted")


def event(**changes: object) -> Json:
    """As the scheduler makes one about the pod `waits`."""
    about = regarding_pod(PodUid("u"), PodKey("default", "waits"))
    made = ReportedEvent(regarding=about, reason="FailedScheduling", note="no room", at=AT)
    body = event_body(made, "me", 1, AT)
    assert isinstance(body, dict)
    return {**body, **changes}


async def test_a_pod_is_told_why_it_waits(thief: Thief) -> None:
    _, uid = await key_and_uid(thief, "waits")
    for message, changed in (("no room", AT), ("still no room", None)):
        for reason in WaitingReason:
            body = waiting_patch(uid, message, changed, reason)
            await thief.client.strategic_patch(f"{PODS}/waits/status", body)
            found = (await thief.admin.get(f"{PODS}/waits"))["status"]["conditions"]
            shown = [one for one in found if one["type"] == "PodScheduled"]
            assert [(one["message"], one["reason"]) for one in shown] == [(message, reason.value)]


async def test_a_pod_is_nominated_and_not_any_more(thief: Thief) -> None:
    key, uid = await key_and_uid(thief, "waits")
    for node, cards in ((NodeName("n1"), (GpuUuid("GPU-1"),)), (None, ())):
        nomination = Nominate(uid, key, node, cards)
        await nominate(thief.client, nomination, FailedWrites(thief.client.contact))
        found = await thief.admin.get(f"{PODS}/waits")
        assert found["status"].get("nominatedNodeName") == node
        reservation = found["metadata"].get("annotations", {}).get("sharedgpu/earmark")
        assert reservation == (",".join(cards) or None)


async def test_a_bound_pod_is_evicted(thief: Thief) -> None:
    failures = FailedWrites(thief.client.contact)
    await evict(thief.client, await eviction(thief, "runs"), failures)
    found = await thief.admin.get(f"{PODS}/runs")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    conditions = {one["type"]: one for one in found["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["message"] == "it gives way"
    # Said again, as when the first deletion came to nothing.
    _, uid = await key_and_uid(thief, "runs")
    again = disruption_patch(uid, "GangIncomplete", "its gang is gone", AT)
    await thief.client.strategic_patch(f"{PODS}/runs/status", again)
    await thief.client.delete(f"{PODS}/runs", uid=uid)


async def test_a_pod_with_very_many_annotations_is_evicted_as_well(thief: Thief) -> None:
    # A policy that looked at each of them would cost too much, and the pod could not be evicted.
    annotations = dict.fromkeys(MANY, "")
    await thief.admin.merge_patch(f"{PODS}/runs", {"metadata": {"annotations": annotations}})
    _, uid = await key_and_uid(thief, "runs")
    body = disruption_patch(uid, "PreemptionByScheduler", "it gives way", AT)
    await expect_accepted(thief.client.strategic_patch(f"{PODS}/runs/status", body))
    await expect_accepted(thief.client.delete(f"{PODS}/runs", uid=uid))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"phase": "Failed"}, "nothing else of a status: phase"),
        ({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}, "nothing else of a status: podIP"),
        ({"hostIP": "10.0.0.9", "hostIPs": [{"ip": "10.0.0.9"}]}, "nothing else of a status: host"),
        ({"message": "broken"}, "nothing else of a status: message"),
        ({"startTime": "2026-01-02T03:04:05Z"}, "nothing else of a status: startTime"),
        ({"containerStatuses": [STARTED]}, "nothing else of a status: containerStatuses"),
        ({"conditions": [condition("Ready", "True", "x")]}, "in conditions that a pod waits"),
        (
            {"conditions": [condition("PodScheduled", "True", "Unschedulable")]},
            "in conditions that a pod waits",
        ),
        (
            {"conditions": [condition("PodScheduled", "False", "SchedulingGated")]},
            "in conditions that a pod waits",
        ),
        (
            {"conditions": [condition("DisruptionTarget", "False", "GangIncomplete")]},
            "in conditions that a pod waits",
        ),
        (
            {"conditions": [condition("DisruptionTarget", "True", "EvictionByEvictionAPI")]},
            "in conditions that a pod waits",
        ),
    ],
)
@pytest.mark.parametrize("name", ["waits", "runs"])
async def test_nothing_else_of_a_status_is_written(
    thief: Thief, name: str, change: Json, words: str
) -> None:
    asked = thief.client.strategic_patch(f"{PODS}/{name}/status", {"status": change})
    assert words in await refused(asked)


@pytest.mark.parametrize("name", ["waits", "runs"])
async def test_no_condition_is_taken_away(thief: Thief, name: str) -> None:
    path, ready = f"{PODS}/{name}/status", condition("Ready", "True", "x")
    await thief.admin.strategic_patch(path, {"status": {"conditions": [ready]}})
    asked = thief.client.merge_patch(path, {"status": {"conditions": []}})
    assert "in conditions that a pod waits" in await refused(asked)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"labels": {"app": "x"}}, "nothing else of metadata: labels"),
        ({"labels": {"sharedgpu/gpu_request": "2"}}, "nothing else of metadata: labels"),
        ({"finalizers": ["example.com/stays"]}, "nothing else of metadata: finalizers"),
        ({"annotations": {"a": "b"}}, "sharedgpu/earmark with a status and no other"),
        ({"annotations": {"sharedgpu/gpu_uuid": "GPU-2"}}, "sharedgpu/earmark"),
        ({"annotations": {"sharedgpu/fence": None, "sharedgpu/cell_id": "c"}}, "sharedgpu/earmark"),
    ],
)
async def test_no_label_finalizer_or_other_annotation_is_written_with_a_status(
    thief: Thief, metadata: Json, words: str
) -> None:
    for name, status in (("runs", {}), ("waits", {"nominatedNodeName": "n1"})):
        body = {"metadata": metadata, "status": status}
        said = await refused(thief.client.merge_patch(f"{PODS}/{name}/status", body))
        assert words in said


async def test_kubernetes_itself_keeps_the_owners_of_a_pod(thief: Thief) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "theirs", "uid": "u"}
    await thief.client.merge_patch(
        f"{PODS}/runs/status", {"metadata": {"ownerReferences": [owner]}}
    )
    assert "ownerReferences" not in (await thief.admin.get(f"{PODS}/runs"))["metadata"]


@pytest.mark.parametrize("name", ["theirs", "runs-elsewhere"])
async def test_pods_of_other_schedulers_are_left_alone(thief: Thief, name: str) -> None:
    path, (_, uid) = f"{PODS}/{name}", await key_and_uid(thief, name)
    bodies = [disruption_patch(uid, "PreemptionByScheduler", "it gives way", AT)]
    if name == "theirs":
        bodies.append(waiting_patch(uid, "no room", AT))
        bodies.append(nomination_patch(uid, NodeName("n1"), ()))
    for body in bodies:
        said = await refused(thief.client.strategic_patch(f"{path}/status", body))
        assert "the status of its own pods" in said
    said = await refused(thief.client.delete(path, uid=uid))
    assert "deletes pods that it has bound and no others" in said


async def test_no_pod_of_the_system_is_deleted_unless_it_is_ours(thief: Thief) -> None:
    for name, body in (("theirs", of_another("theirs")), ("ours", pod("ours"))):
        body["spec"]["nodeName"] = "n1"
        await thief.admin.create(SYSTEM, body)
        _, uid = await key_and_uid(thief, name, SYSTEM)
        asked = thief.client.delete(f"{SYSTEM}/{name}", uid=uid)
        if name == "theirs":
            assert "and no others" in await refused(asked)
        else:
            await asked


async def test_a_pod_that_waits_is_not_deleted(thief: Thief) -> None:
    asked = thief.client.delete(f"{PODS}/waits")
    assert "deletes pods that it has bound and no others" in await refused(asked)


@pytest.mark.parametrize("grace_s", [0, 1, 29])
async def test_no_pod_that_runs_is_cut_short(thief: Thief, grace_s: int) -> None:
    asked = thief.client.delete(f"{PODS}/runs", grace_period_s=grace_s)
    assert "its own terminationGracePeriodSeconds" in await refused(asked)
    await thief.client.delete(f"{PODS}/runs")
    # Not while it ends, either.
    await refused(thief.client.delete(f"{PODS}/runs", grace_period_s=grace_s))


async def test_a_pod_that_has_ended_is_deleted_at_once(thief: Thief) -> None:
    await thief.admin.merge_patch(f"{PODS}/runs/status", {"status": {"phase": "Succeeded"}})
    _, uid = await key_and_uid(thief, "runs")
    await expect_accepted(thief.client.delete(f"{PODS}/runs", uid=uid))


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "says in sharedgpu/allocation what the pod gets"),
        ({"annotations": {"sharedgpu/gpu_uuid": "GPU-1"}}, "says in sharedgpu/allocation"),
        ({"annotations": {"sharedgpu/allocation": "{}", "a": "b"}}, "and no others"),
        ({**RESULTS, "labels": {"app": "x"}}, "brings no labels"),
    ],
)
async def test_a_binding_brings_a_placement_and_nothing_else(
    thief: Thief, metadata: Json, words: str
) -> None:
    assert words in await refused(thief.bind("waits", metadata))
    await thief.bind("waits", RESULTS)


async def test_a_binding_may_say_what_the_card_of_a_sharepod_is_called(thief: Thief) -> None:
    named = {**RESULTS["annotations"], "kubeshare/GPUID": "abcde"}
    await thief.bind("waits", {**RESULTS, "annotations": named})
    found = (await thief.admin.get(f"{PODS}/waits"))["metadata"]["annotations"]
    assert found["kubeshare/GPUID"] == "abcde"


async def test_whose_pod_is_bound_no_policy_can_say(thief: Thief) -> None:
    await thief.bind("theirs", RESULTS)
    assert (await thief.admin.get(f"{PODS}/theirs"))["spec"]["nodeName"] == "n1"


async def test_a_node_says_in_which_zone_its_pods_are(thief: Thief) -> None:
    labels = {"topology.kubernetes.io/zone": "east"}
    await thief.admin.create("/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})
    async with asyncio.timeout(PATIENCE_S):
        for number in count():  # the API server's own cache of nodes may be a moment behind
            await thief.admin.create(PODS, pod(f"p{number}"))
            await thief.bind(f"p{number}", RESULTS)
            found = (await thief.admin.get(f"{PODS}/p{number}"))["metadata"].get("labels")
            if found is not None:
                break
    assert found == labels


async def test_events_of_the_scheduler_are_made_and_counted(thief: Thief) -> None:
    path, made = EVENTS.format("default"), event()
    await expect_accepted(thief.client.create(path, made))
    await expect_accepted(
        thief.client.merge_patch(f"{path}/{made['metadata']['name']}", series_patch(2, AT))
    )
    node = ReportedEvent(
        regarding=regarding_part(NodeName("n1"), GpuUuid("GPU-1")), reason="GPUOvercommitted",
        note="too much", at=AT,
    )  # fmt: skip
    await expect_accepted(thief.client.create(path, event_body(node, "me", 1, AT)))


@pytest.mark.parametrize(
    ("namespace", "changes", "words"),
    [
        ("default", {"reportingController": "kubelet"}, "its own events and no others"),
        (
            "default",
            {"regarding": {"kind": "Secret", "name": "s", "namespace": "default"}},
            "about",
        ),
        ("kube-system", {"metadata": {"name": "e"}}, "about pods in their namespace"),
        (
            "kube-system",
            {"metadata": {"name": "e"}, "regarding": {"kind": "Node", "name": "n1"}},
            "about nodes in default",
        ),
    ],
)
async def test_no_event_is_made_in_anothers_name_or_elsewhere(
    thief: Thief, namespace: str, changes: Json, words: str
) -> None:
    made = event(**changes)
    made["metadata"] = {"name": made["metadata"]["name"]}
    said = await refused(thief.client.create(EVENTS.format(namespace), made))
    assert words in said


async def test_nothing_but_its_count_is_changed_of_an_event(thief: Thief) -> None:
    path, made = EVENTS.format("default"), event()
    await thief.client.create(path, made)
    mine = f"{path}/{made['metadata']['name']}"
    for change in ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"finalizers": ["a.b/c"]}}):
        said = await refused(thief.client.merge_patch(mine, change))
        assert "how often an event was seen" in said
    theirs = event(reportingController="kubelet", metadata={"name": "theirs"})
    await thief.admin.create(path, theirs)
    said = await refused(thief.client.merge_patch(f"{path}/theirs", series_patch(2, AT)))
    assert "its own events" in said
    taken = {"reportingController": "kubeshare-scheduler"}
    with pytest.raises(KubeError, match=r"immutable|how often"):
        await thief.client.merge_patch(f"{path}/theirs", taken)


async def test_of_the_api_service_only_the_authority_is_written(thief: Thief) -> None:
    await thief.admin.create(API_SERVICES, only("APIService", SERVICE))
    path = f"{API_SERVICES}/{SERVICE}"
    authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await thief.client.merge_patch(path, {"spec": {"caBundle": authority}})
    elsewhere = {"name": "mine", "namespace": "default", "port": 443}
    for change in (
        {"spec": {"service": elsewhere}},
        {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}},
        {"spec": {"versionPriority": 1}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/stays"]}},
    ):
        said = await refused(thief.client.merge_patch(path, change))
        assert "writes spec.caBundle of its APIService" in said


async def test_no_lease_but_its_own_is_written_and_none_is_made(thief: Thief) -> None:
    await ship_lease(thief.admin)
    held = {"spec": {"holderIdentity": "thief"}}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **held}
    for name in ("kubeshare-scheduler", "kube-controller-manager"):
        await refused(thief.client.create(LEASES, {**body, "metadata": {"name": name}}))
    await thief.admin.create(LEASES, {**body, "metadata": {"name": "another"}})
    found = await thief.admin.get(f"{LEASES}/another")
    await refused(thief.client.replace(f"{LEASES}/another", found))
    own = await thief.client.get(f"{LEASES}/kubeshare-scheduler")
    await expect_accepted(thief.client.replace(f"{LEASES}/kubeshare-scheduler", {**own, **held}))
