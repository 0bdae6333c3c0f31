"""What simulated kubelets do about their pods."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.nodes.kubelet import (
    FinishDeletion,
    Kubelets,
    ReportStatus,
    WriteAnnotations,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp

NODE = NodeName("n")
ENV = "kubeshare.sim/env"


class World:
    """A server with pods, as far as kubelets see it: what they write is there and echoed."""

    def __init__(self) -> None:
        self.kubelets = Kubelets({NODE: "172.20.0.0"})
        self.pods: dict[str, UnstructuredObject] = {}
        self.written: list[str] = []
        self.now = 1_700_000_000.0

    def bind(self, name: str = "p", policy: str = "Never", **sim: str) -> None:
        annotations = {f"kubeshare.sim/{key.replace('_', '-')}": sim[key] for key in sim}
        annotations["sharedgpu/gpu_uuid"] = "GPU-1"
        reference = {"fieldRef": {"fieldPath": "metadata.annotations['sharedgpu/gpu_uuid']"}}
        container = {
            "name": "main",
            "image": "i",
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": reference}],
        }
        self.put(
            UnstructuredObject(
                metadata=UnstructuredMetadata(
                    name=name, namespace="ns", uid=f"uid-{name}", annotations=annotations
                ),
                spec={"nodeName": NODE, "restartPolicy": policy, "containers": [container]},
                status={"phase": "Pending"},
            )
        )

    def put(self, pod: UnstructuredObject) -> None:
        self.pods[pod.metadata.name] = pod
        self.kubelets.pod_seen(pod, self.now)

    def annotate(self, name: str, **sim: str) -> None:
        pod = self.pods[name]
        added = {f"kubeshare.sim/{key.replace('_', '-')}": sim[key] for key in sim}
        self.put(self.with_annotations(pod, added))

    def delete(self, name: str, grace: int = 30) -> None:
        pod = self.pods[name]
        until = timestamp(self.now + grace)
        metadata = msgspec.structs.replace(pod.metadata, deletionTimestamp=until)
        self.put(msgspec.structs.replace(pod, metadata=metadata))

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, write what is due when it is due."""
        until = self.now + seconds
        while (wake := self.kubelets.wake_at()) is not None and wake <= until:
            self.now = max(self.now, wake)
            for work in self.kubelets.due(self.now):
                for step in work.steps:
                    self.write(work.pod.name, step)
        self.now = until

    def write(self, name: str, step: WriteAnnotations | ReportStatus | FinishDeletion) -> None:
        pod = self.pods[name]
        match step:
            case WriteAnnotations(annotations):
                self.written.append(f"{name} annotations")
                self.put(self.with_annotations(pod, dict(annotations)))
            case ReportStatus(body):
                status = {**pod.status, **body["status"]}
                self.written.append(f"{name} {status['phase']}")
                self.put(msgspec.structs.replace(pod, status=status))
            case FinishDeletion():
                self.written.append(f"{name} gone")
                self.kubelets.pod_gone(self.pods.pop(name).uid)

    @staticmethod
    def with_annotations(pod: UnstructuredObject, added: dict[str, str]) -> UnstructuredObject:
        annotations = {**(pod.metadata.annotations or {}), **added}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        return msgspec.structs.replace(pod, metadata=metadata)

    def state(self, name: str = "p") -> dict[str, Any]:
        (container,) = self.pods[name].status["containerStatuses"]
        found: dict[str, Any] = container["state"]
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_a_bound_pod_gets_its_environment_and_runs(world: World) -> None:
    world.bind()
    world.run()
    pod = world.pods["p"]
    assert world.written == ["p annotations", "p Running"]
    assert pod.metadata.annotations is not None
    assert json.loads(pod.metadata.annotations[ENV]) == {
        "main": {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}
    }
    assert {one["type"]: one["status"] for one in pod.status["conditions"]} == {
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    (container,) = pod.status["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
    assert pod.status["hostIP"] == "172.20.0.0"
    assert pod.status["podIP"].startswith("10.")
    assert world.kubelets.wake_at() is None


def test_unbound_pods_and_those_of_other_nodes_are_left_alone(world: World) -> None:
    for spec in ({}, {"nodeName": "other"}):
        metadata = UnstructuredMetadata(name="p", namespace="ns", uid="u")
        world.kubelets.pod_seen(UnstructuredObject(metadata=metadata, spec=spec), world.now)
    assert world.kubelets.wake_at() is None


@pytest.mark.parametrize(
    ("policy", "exit_code", "ends"),
    [
        ("Never", "0", "Succeeded"),
        ("Never", "3", "Failed"),
        ("OnFailure", "0", "Succeeded"),
        ("OnFailure", "3", "Running"),
        ("Always", "0", "Running"),
    ],
)
def test_a_finished_pod_ends_as_its_restart_policy_says(
    world: World, policy: str, exit_code: str, ends: str
) -> None:
    world.bind(policy=policy, run_seconds="5", exit_code=exit_code)
    world.run(4.9)
    assert world.pods["p"].status["phase"] == "Running"
    world.run(0.1)
    (container,) = world.pods["p"].status["containerStatuses"]
    assert world.pods["p"].status["phase"] == ends
    if ends == "Running":
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == int(exit_code)
    else:
        assert container["state"]["terminated"]["exitCode"] == int(exit_code)
        assert container["state"]["terminated"]["startedAt"] == timestamp(world.now - 5)


def test_restarts_back_off(world: World) -> None:
    world.bind(policy="Always", run_seconds="1", exit_code="1")
    world.run(2)
    assert world.state()["waiting"]["reason"] == "CrashLoopBackOff"
    world.run(9.9)
    assert "waiting" in world.state()
    world.run(0.1)
    assert "running" in world.state()
    assert world.pods["p"].status["containerStatuses"][0]["restartCount"] == 2
    world.run(20.9)
    assert "waiting" in world.state()
    world.run(0.1)
    assert world.pods["p"].status["containerStatuses"][0]["restartCount"] == 3


def test_a_restart_sees_annotations_as_they_are_then(world: World) -> None:
    world.bind(policy="Always", run_seconds="1")
    world.run()
    world.put(world.with_annotations(world.pods["p"], {"sharedgpu/gpu_uuid": "GPU-2"}))
    assert "GPU-1" in (world.pods["p"].metadata.annotations or {})[ENV]
    world.run(1)
    assert "GPU-2" in (world.pods["p"].metadata.annotations or {})[ENV]


def test_a_slow_start_is_seen_as_container_creating(world: World) -> None:
    world.bind(start_seconds="3")
    world.run(2)
    assert world.state()["waiting"]["reason"] == "ContainerCreating"
    assert world.pods["p"].status["phase"] == "Pending"
    world.run(1)
    assert world.pods["p"].status["phase"] == "Running"


@pytest.mark.parametrize(
    "sim", [{"run_seconds": "soon"}, {"run_seconds": "-1"}, {"exit_code": "256"}]
)
def test_a_bad_annotation_is_named_in_the_status(world: World, sim: dict[str, str]) -> None:
    world.bind(**sim)
    world.run(100)
    waiting = world.state()["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith("annotation kubeshare.sim/")
    world.delete("p")
    world.run()
    assert world.written[-1] == "p gone"


def test_the_end_of_a_running_pod_can_be_moved(world: World) -> None:
    world.bind()
    world.run(50)
    world.annotate("p", run_seconds="60")
    world.run(9)
    assert world.pods["p"].status["phase"] == "Running"
    world.annotate("p", run_seconds="never")
    world.annotate("p", run_seconds="1")
    world.run()
    assert world.pods["p"].status["phase"] == "Succeeded"


def test_the_end_of_a_running_pod_can_be_put_off(world: World) -> None:
    world.bind(run_seconds="10")
    world.run(5)
    world.annotate("p", run_seconds="100")
    world.run(94.9)
    assert world.pods["p"].status["phase"] == "Running"
    world.run(0.1)
    assert world.pods["p"].status["phase"] == "Succeeded"


def test_a_deleted_pod_fails_and_goes(world: World) -> None:
    world.bind()
    world.run()
    world.delete("p")
    world.run()
    assert world.written[-2:] == ["p Failed", "p gone"]


def test_a_deleted_pod_may_take_its_time_but_not_more_than_its_grace(world: World) -> None:
    world.bind("a", stop_seconds="5")
    world.bind("b", stop_seconds="50")
    world.run()
    world.delete("a")
    world.delete("b", grace=10)
    world.run(4.9)
    assert {*world.pods} == {"a", "b"}
    world.run(0.1)
    assert {*world.pods} == {"b"}
    world.run(5)
    assert world.pods == {}


def test_a_deletion_before_the_start_is_finished_at_once(world: World) -> None:
    world.bind()
    world.delete("p")
    world.run()
    assert world.written == ["p Failed", "p gone"]


def test_a_finished_pod_keeps_its_phase_when_it_is_deleted(world: World) -> None:
    world.bind(run_seconds="1")
    world.run(1)
    world.delete("p")
    world.run()
    assert world.written[-2:] == ["p Succeeded", "p gone"]


def test_a_lost_node_writes_nothing_and_catches_up_when_it_is_back(world: World) -> None:
    world.bind(run_seconds="5")
    world.run()
    written = list(world.written)
    world.kubelets.lose(NODE)
    world.bind("q")
    world.delete("q")
    world.run(10)
    assert world.written == written
    world.kubelets.come_back(NODE)
    world.run()
    assert sorted(world.written[len(written) :]) == ["p Succeeded", "q Failed", "q gone"]


def test_a_new_process_takes_over_running_pods_where_they_are(world: World) -> None:
    world.bind("running", run_seconds="5")
    world.bind("done", run_seconds="0")
    world.run(3)
    world.kubelets, world.written = Kubelets({NODE: "172.20.0.0"}), []
    world.kubelets.pods_listed(world.pods.values(), world.now)
    world.run(1)
    assert world.written == []
    world.run(1)
    assert world.written == ["running Succeeded"]


def test_pods_missing_from_a_list_are_gone(world: World) -> None:
    world.bind(run_seconds="5")
    world.run()
    world.kubelets.pods_listed([], world.now)
    world.run(10)
    assert world.written[-1] == "p Running"


def test_a_phase_given_by_others_ends_the_pod(world: World) -> None:
    world.bind(run_seconds="5")
    world.run()
    evicted = msgspec.structs.replace(world.pods["p"], status={"phase": "Failed"})
    world.put(evicted)
    world.run(10)
    assert world.written[-1] == "p Running"


def test_init_containers_are_done_and_sidecars_run(world: World) -> None:
    spec = {
        "nodeName": NODE,
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}],
    }
    world.put(
        UnstructuredObject(
            metadata=UnstructuredMetadata(name="p", namespace="ns", uid="u"), spec=spec
        )
    )
    world.run()
    once, side = world.pods["p"].status["initContainerStatuses"]
    assert once["state"]["terminated"]["reason"] == "Completed"
    assert "running" in side["state"]


def test_a_pod_whose_limit_of_memory_is_not_told_does_not_start() -> None:
    world = World()
    limits = [
        {"name": f"NVIDIA_GPU_MEMORY_{kind}", "value": value}
        for kind, value in (("REQUEST", ""), ("LIMIT", "1"))
    ]
    reference = {"fieldRef": {"fieldPath": "metadata.annotations['sharedgpu/gpu_uuid']"}}
    cards = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": reference}
    container = {"name": "main", "image": "i", "env": [cards, *limits]}
    metadata = UnstructuredMetadata(name="p", uid="u", annotations={"sharedgpu/gpu_uuid": "GPU-1"})
    spec = {"nodeName": NODE, "containers": [container]}
    world.put(UnstructuredObject(metadata=metadata, spec=spec, status={"phase": "Pending"}))
    world.run(3600)
    [status] = world.pods["p"].status["containerStatuses"]
    waiting = status["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "NVIDIA_GPU_MEMORY_REQUEST='' is no number of MiB" in waiting["message"]
    assert world.written == ["p Pending"]
    world.delete("p")
    world.run(1)
    assert world.written[-1] == "p gone"
