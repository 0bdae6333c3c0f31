"""All rows are asked once about a shape, however many pods of it come, one after the other.

The pods are read as a real API server sends them: with the tolerations, the token and the defaults
that it adds to each pod.
"""

import copy
from random import Random
from typing import Any

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindSlotsFree,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.remembered import HEAVY, weight_of
from kubeshare_py.scheduling.machine import Machine
from tests.dialects import languages
from tests.dialects.languages import GIB, LANGUAGES
from tests.dialects.test_any_language import PROFILES, SCHEDULER, read_node, read_pod
from tests.making import a_gpu, a_machine

Json = dict[str, Any]
NODES, PODS = 60, 4
#: Far more than rows that a pod's coming and going changes, and far fewer than all.
FEW_ROWS = NODES // 4


def as_served(pod: Json, name: str) -> Json:
    """The pod, with what a real API server adds; `name` is its own."""
    served = copy.deepcopy(pod)
    served["metadata"] |= {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "123456",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "generation": 1,
        "managedFields": [
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}
        ],
    }
    token = {"expirationSeconds": 3607, "path": "token"}
    spec = served["spec"]
    spec |= {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
        "volumes": [
            {
                "name": "kube-api-access-abcde",
                "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]},
            }
        ],
    }
    mount = {"name": "kube-api-access-abcde", "readOnly": True, "mountPath": "/var/run/secrets"}
    for container in spec["containers"]:
        container["image"] = "registry.example.com/team/train:1.2.3"
        # Kubernetes sets requests of extended resources to their limits.
        resources = container.setdefault("resources", {})
        limits = {"cpu": "2", "memory": "4Gi"} | resources.get("limits", {})
        container |= {
            "resources": {"limits": limits, "requests": {**limits, "cpu": "500m"}},
            "volumeMounts": [mount],
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    return served


def plain_pod(name: str, rng: Random) -> languages.Asked:
    """A pod without GPUs."""
    del rng
    pod = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"schedulerName": SCHEDULER, "containers": [{"name": "web"}]},
        "status": {"phase": "Pending"},
    }
    return languages.Asked(pod, "", ())


def a_started_machine() -> Machine:
    machine = a_machine({"profiles": PROFILES})
    names = [f"n{number}" for number in range(NODES)]
    cards = {
        name: tuple(a_gpu(f"GPU-{name}-{at}", index=at, memory_bytes=40 * GIB) for at in range(4))
        for name in names
    }
    machine.handle(PodsListed((), 0.0), 0.0)
    nodes = tuple(read_node(name, f"n{1 + at % 2}") for at, name in enumerate(names))
    machine.handle(NodesListed(nodes), 0.0)
    machine.handle(InventoryRead(tuple((NodeName(name), cards[name]) for name in names)), 0.0)
    return machine


def rows_asked(machine: Machine, pod: Json, name: str) -> int:
    """How many rows are asked about for this pod, which comes, gets a place, and leaves."""
    (work,) = {id(one.work): one.work for one in machine.evaluators.values()}.values()
    before = work.rows
    machine.handle(PodSeen(read_pod(as_served(pod, name))), 0.0)
    binds = [one for one in machine.handle(BindSlotsFree(64), 0.0) if isinstance(one, Bind)]
    assert [bind.key.name for bind in binds] == [name]
    assert machine.handle(BindSlotsFree(64), 0.0) == []
    machine.handle(PodGone(PodUid(f"uid-{name}"), stopped=True), 0.0)
    return work.rows - before


@pytest.mark.slow
@pytest.mark.parametrize("language", [*LANGUAGES, plain_pod])
def test_all_rows_are_asked_once_for_pods_of_one_template(language: Any) -> None:
    machine = a_started_machine()
    for seed in range(4):
        pod = language("template", Random(seed)).pod
        _, *others = (rows_asked(machine, pod, f"p{seed}-{at}") for at in range(PODS))
        # Where a name of a card is taken depends on all rows: one filter asks them each time.
        is_named = read_pod(as_served(pod, "p")).shape.card_name is not None
        assert max(others) < FEW_ROWS + is_named * NODES, pod


@pytest.mark.parametrize("language", [*LANGUAGES, plain_pod])
def test_no_ordinary_pod_is_near_what_is_too_large_to_be_kept(language: Any) -> None:
    for seed in range(20):
        pod = read_pod(as_served(language("template", Random(seed)).pod, "p"))
        assert weight_of(pod.shape) < HEAVY / 3
