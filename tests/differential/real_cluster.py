"""Cases in an API server, where the real kube-scheduler decides.

No controllers run, so that objects stay as a case has them.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from tests.conformance.real_api import RealApi
from tests.controlplane.build import TESTED, build
from tests.controlplane.processes import process
from tests.controlplane.running import control_plane
from tests.differential.generator.words import NAMESPACES

Json = dict[str, Any]

#: They would refuse pods of a case, or change them.
NOT_ADMITTED_BY = ("ServiceAccount", "Priority", "RuntimeClass", "StorageObjectInUseProtection")
_STORAGE = "/apis/storage.k8s.io/v1"
#: The group of each kind, and whether it is in a namespace; in the order in which they are made.
_KINDS = {
    "Namespace": ("/api/v1", False),
    "Node": ("/api/v1", False),
    "StorageClass": (_STORAGE, False),
    "CSIDriver": (_STORAGE, False),
    "CSINode": (_STORAGE, False),
    "CSIStorageCapacity": (_STORAGE, True),
    "VolumeAttachment": (_STORAGE, False),
    "PodDisruptionBudget": ("/apis/policy/v1", True),
    "Service": ("/api/v1", True),
    "ReplicationController": ("/api/v1", True),
    "ReplicaSet": ("/apis/apps/v1", True),
    "StatefulSet": ("/apis/apps/v1", True),
    "Pod": ("/api/v1", True),
    "PersistentVolumeClaim": ("/api/v1", True),
    "PersistentVolume": ("/api/v1", False),
}
#: The API server makes the status of these itself when they are created.
_WITH_STATUS = ("Pod", "PodDisruptionBudget", "PersistentVolumeClaim", "PersistentVolume")
_PATCH = "application/merge-patch+json"
_GATE = {"name": "example.com/wait"}
_DECIDED_S, _POLL_S = 4.0, 0.02


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a pod: its node, or the node it is nominated to, victims, and the message."""

    node: str = ""
    nominated: str = ""
    victims: frozenset[str] = frozenset()
    message: str = ""


@contextmanager
def real_cluster(folder: Path) -> Iterator["RealCluster"]:
    """Run an API server and kube-scheduler while entered."""
    binaries = build(TESTED)
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER_NAME}],
    }
    with control_plane(
        binaries, folder, controllers=False, identity=False, not_admitted_by=NOT_ADMITTED_BY
    ) as plane:
        settings["clientConnection"] = {"kubeconfig": str(plane.kubeconfig), "qps": 500}
        configuration = folder / "scheduler.json"
        configuration.write_text(json.dumps(settings))
        command: list[str | Path] = [binaries / "kube-scheduler"]
        command += [f"--config={configuration}", "--secure-port=0"]
        with process(command, folder / "kube-scheduler.log"), RealApi(plane) as api:
            yield RealCluster(api)


class RealCluster:
    """One case at a time. `put`, then `decision` as often as needed, then `clear`."""

    def __init__(self, api: RealApi) -> None:
        self._api = api
        self._pause = threading.Event()
        for name in NAMESPACES:
            self._api.post("/api/v1/namespaces", {"metadata": {"name": name}})

    def put(self, case: Json, number: int) -> Json:
        """Create the objects of a case; the case as the API server has it.

        `number` is a part of the nodes' names, so that none of them has been there before.
        """
        case = accepted(case, number)
        order = [*_KINDS]
        objects = sorted(case["objects"], key=lambda one: order.index(one["kind"]))
        gated = {**case["pod"], "spec": {**case["pod"]["spec"], "schedulingGates": [_GATE]}}
        uids: dict[str, str] = {}
        incoming = self._create(gated, uids)
        made = [self._create(one, uids) for one in objects]
        self._delete_again(objects)
        # Pods that have ended are gone as soon as they are deleted.
        found = [(self._get(_path(one)), one) for one in made]
        del incoming["spec"]["schedulingGates"]
        incoming["status"] = {"phase": "Pending"}
        return {
            "objects": [_named(one, was) for one, was in found if one["kind"] != "Status"],
            "pod": incoming,
        }

    def decision(self, case: Json, expected: Callable[[Decision], bool]) -> Decision:
        """Let kube-scheduler decide; waits a while for what is expected."""
        path = _path(case["pod"])
        self._api.raw("PATCH", path, {"spec": {"schedulingGates": None}}, content_type=_PATCH)
        found = Decision()
        for _ in range(round(_DECIDED_S / _POLL_S)):
            found = self._found(path)
            if expected(found):
                break
            self._pause.wait(_POLL_S)
        return found

    def clear(self) -> None:
        """Delete all that a case has created."""
        for kind, (group, namespaced) in _KINDS.items():
            if kind == "Namespace":
                continue
            for namespace in NAMESPACES if namespaced else ("",):
                where = f"{group}/namespaces/{namespace}" if namespace else group
                path = f"{where}/{_plural(kind)}"
                self._api.raw("DELETE", path, {"gracePeriodSeconds": 0, **_OPTIONS})
                for left in self._get(path)["items"]:
                    name = left["metadata"]["name"]
                    patch = {"metadata": {"finalizers": None}}
                    self._api.raw("PATCH", f"{path}/{name}", patch, content_type=_PATCH)

    def _found(self, path: str) -> Decision:
        pod = self._get(path)
        conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
        scheduled = conditions.get("PodScheduled", {})
        message = scheduled.get("message", "") if scheduled.get("status") == "False" else ""
        return Decision(
            node=pod["spec"].get("nodeName", ""),
            nominated=pod["status"].get("nominatedNodeName", ""),
            victims=frozenset(
                f"{one['metadata']['namespace']}/{one['metadata']['name']}"
                for one in self._get("/api/v1/pods")["items"]
                if any(
                    condition["type"] == "DisruptionTarget"
                    for condition in one["status"].get("conditions", ())
                )
            ),
            message="" if scheduled.get("reason") == "SchedulingGated" else message,
        )

    def _create(self, one: Json, uids: dict[str, str]) -> Json:
        """Create an object, with uids of objects that were created before it in place of names."""
        written = json.dumps(one)
        for before, uid in uids.items():
            written = written.replace(f'"{before}"', f'"{uid}"')
        wanted: Json = json.loads(written)
        if one["kind"] == "Namespace":
            made = self._api.raw("PATCH", _path(one), _labels(one), content_type=_PATCH)
        else:
            made = self._api.raw("POST", _collection(one), wanted)
        answer: Json = json.loads(made.body)
        assert made.status < 300, f"{answer.get('message')}: {written}"
        if "uid" in one["metadata"]:
            uids[one["metadata"]["uid"]] = answer["metadata"]["uid"]
        if one["kind"] in _WITH_STATUS and "status" in wanted:
            answer["status"] = wanted["status"]
            made = self._api.raw("PUT", f"{_path(one)}/status", answer)
            answer = json.loads(made.body)
            assert made.status < 300, f"{answer.get('message')}: {written}"
        return _named(answer, one)

    def _delete_again(self, objects: list[Json]) -> None:
        for one in objects:
            if "deletionTimestamp" in one["metadata"]:
                self._api.raw("DELETE", _path(one))

    def _get(self, path: str) -> Json:
        found: Json = self._api.get(path)
        return found


_OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}


def accepted(case: Json, number: int) -> Json:
    """The case in a form that the API server accepts, with names of nodes of its own."""
    written = re.sub(r'"n(\d+)"', rf'"k{number}-n\1"', json.dumps(case))
    made: Json = json.loads(written)
    for pod in (made["pod"], *(one for one in made["objects"] if one["kind"] == "Pod")):
        spec = pod["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            _limit(container.get("resources", {}))
    return made


def _limit(resources: Json) -> None:
    """Devices and huge pages have limits; huge pages are not asked for alone."""
    asked = resources.get("requests", {})
    if not {"cpu", "memory"} & asked.keys():
        asked.pop("hugepages-2Mi", None)
    limits = {name: asked[name] for name in asked if "/" in name or name.startswith("hugepages")}
    if limits:
        resources["limits"] = limits


def _labels(one: Json) -> Json:
    labels = {"team": None, **one["metadata"]["labels"]}
    return {"metadata": {"labels": labels}}


def _named(found: Json, like: Json) -> Json:
    """Lists and single objects lack these."""
    return {**found, "apiVersion": like["apiVersion"], "kind": like["kind"]}


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _collection(one: Json) -> str:
    group, namespaced = _KINDS[one["kind"]]
    where = f"{group}/namespaces/{one['metadata']['namespace']}" if namespaced else group
    return f"{where}/{_plural(one['kind'])}"


def _path(one: Json) -> str:
    return f"{_collection(one)}/{one['metadata']['name']}"
