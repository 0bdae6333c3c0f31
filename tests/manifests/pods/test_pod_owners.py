"""Services and controllers, and the controller of a pod."""

import json

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import (
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    Requirement,
    ServiceObject,
    StatefulSetObject,
    WatchedKind,
)
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.manifests.events import WATCHED
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec

META: dict[str, object] = {"name": "x", "namespace": "ns"}


def read(kind: WatchedKind, **spec: object) -> AnyObject:
    (watched,) = [one for one in WATCHED if one.kind is kind]
    body = json.dumps({"items": [{"metadata": META, "spec": spec}]}).encode()
    page = Codec(watched.fields).page(body)
    assert not page.problems
    return watched.to_domain(page.items[0])


def controller(*owners: dict[str, object], node: str = "") -> PodController | None:
    written = {"metadata": {**META, "ownerReferences": [*owners]}, "spec": {"nodeName": node}}
    page = Codec(PodFields).page(json.dumps({"items": [written]}).encode())
    assert not page.problems
    return to_domain(page.items[0]).controller


def owner(version: str, kind: str, *, controls: bool = True) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "name": "r", "uid": "u", "controller": controls}


def test_of_each_kind_the_selector_is_kept() -> None:
    labels = {"tier": "front", "app": "web"}
    pairs = (("app", "web"), ("tier", "front"))
    assert read(WatchedKind.SERVICE, selector=labels, ports=[]) == ServiceObject(
        name="x", namespace="ns", endpoint_labels=pairs
    )
    found = read(WatchedKind.REPLICATION_CONTROLLER, selector=labels, replicas=3)
    assert found == ReplicationControllerObject(name="x", namespace="ns", replica_labels=pairs)
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    lines = (Requirement("a", "In", ("b",)), Requirement("c", "Exists"))
    assert read(WatchedKind.REPLICA_SET, selector=selector, template={}) == ReplicaSetObject(
        name="x", namespace="ns", replica_selector=lines
    )
    assert read(WatchedKind.STATEFUL_SET, selector=selector) == StatefulSetObject(
        name="x", namespace="ns", ordinal_selector=lines
    )


def test_without_a_selector_there_is_nothing_to_keep() -> None:
    assert read(WatchedKind.SERVICE, externalName="a.example.com") == ServiceObject(
        name="x", namespace="ns"
    )
    assert read(WatchedKind.REPLICA_SET) == ReplicaSetObject(name="x", namespace="ns")


def test_a_pod_names_its_controller_if_that_has_a_selector() -> None:
    replicas = PodController(WatchedKind.REPLICA_SET, "r")
    assert controller(owner("apps/v1", "ReplicaSet")) == replicas
    assert (
        controller(owner("v1", "Node", controls=False), owner("apps/v1", "ReplicaSet")) == replicas
    )
    assert controller(owner("apps/v1", "StatefulSet")) == PodController(
        WatchedKind.STATEFUL_SET, "r"
    )
    assert controller(owner("v1", "ReplicationController")) == PodController(
        WatchedKind.REPLICATION_CONTROLLER, "r"
    )


def test_other_owners_and_bound_pods_name_none() -> None:
    assert controller() is None
    assert controller(owner("batch/v1", "Job")) is None
    assert controller(owner("v1", "ReplicaSet")) is None
    assert controller(owner("apps/v1", "ReplicaSet", controls=False)) is None
    assert controller(owner("batch/v1", "Job"), owner("apps/v1", "ReplicaSet")) is None
    assert controller(owner("apps/v1", "ReplicaSet"), node="n1") is None


def run_of(kind: str, name: str, **labels: str) -> tuple[str, str]:
    """Of a member of a group: its owner, and the owner's title."""
    reference = {"kind": kind, "name": name, "uid": "u", "controller": True}
    group = {f"sharedgpu/group_{key}": text for key, text in GROUP.items()}
    metadata = META | {"labels": group | labels, "ownerReferences": [reference]}
    page = Codec(PodFields).page(json.dumps({"items": [{"metadata": metadata}]}).encode())
    pod = to_domain(page.items[0])
    return pod.owner, pod.owner_title


GROUP = {"name": "g", "headcount": "2", "threshold": "1"}


def test_a_run_belongs_to_the_controller() -> None:
    assert run_of("Job", "night-1") == ("u", "job night-1")


def test_a_run_belongs_to_the_jobset_of_which_the_jobs_are() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/jobset-name": "s"}
    assert run_of("Job", "s-workers-0", **labels) == ("set", "job s-workers-0")


def test_replica_sets_of_one_deployment_belong_to_one_run() -> None:
    for revision in ("7d9f", "55c4"):
        labels = {"pod-template-hash": revision}
        found = run_of("ReplicaSet", f"web-{revision}", **labels)
        assert found == ("Deployment/web", "deployment web")
    assert run_of("ReplicaSet", "web-7d9f") == ("u", "replicaset web-7d9f")


def test_a_pod_without_a_group_keeps_no_owner() -> None:
    reference = owner("batch/v1", "Job")
    written = {"metadata": {**META, "ownerReferences": [reference]}}
    page = Codec(PodFields).page(json.dumps({"items": [written]}).encode())
    assert to_domain(page.items[0]).owner == ""


def test_a_bound_pod_with_a_card_names_its_controller_and_is_in_no_run() -> None:
    card = CardCharge(GpuUuid("GPU-1"), 500, 1 << 30, "T4")
    held = write_allocation(Allocation(token=DecisionToken("t"), cards=(card,)))

    def titled(annotations: dict[str, str]) -> tuple[str, str]:
        reference = owner("batch/v1", "Job")
        metadata = {**META, "annotations": annotations, "ownerReferences": [reference]}
        written = {"metadata": metadata, "spec": {"nodeName": "n1"}}
        pod = to_domain(Codec(PodFields).page(json.dumps({"items": [written]}).encode()).items[0])
        return pod.owner, pod.owner_title

    assert titled({"sharedgpu/allocation": held}) == ("", "job r")
    assert titled({}) == ("", "")


def test_a_pod_made_of_a_share_pod_names_it() -> None:
    reference = owner("kubeshare.nthu/v1", "SharePod")
    asked = {"kubeshare/gpu_request": "0.5", "kubeshare/gpu_limit": "1.0", "kubeshare/gpu_mem": "1"}
    metadata = {**META, "annotations": asked, "ownerReferences": [reference]}
    spec = {"schedulerName": "ours"}
    page = Codec(PodFields).page(
        json.dumps({"items": [{"metadata": metadata, "spec": spec}]}).encode()
    )
    dialects = Dialects({"ours": (SharePods(),)})
    assert to_domain(page.items[0], dialects).owner_title == "sharepod r"
    assert to_domain(page.items[0]).owner_title == ""
