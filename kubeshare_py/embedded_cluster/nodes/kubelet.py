"""Simulated kubelets: what the nodes do with the pods bound to them, and when.

`pod_seen`, `pod_gone` and `pods_listed` report pods; `due` returns what to write now, and `wake_at`
when to ask again. Each write is returned once; its echo changes nothing.
"""

import heapq
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    DEVICE_CLAIMS,
    Json,
    ObjectKind,
    UnstructuredObject,
    is_finished,
    phase,
)
from kubeshare_py.embedded_cluster.nodes.container_runtime import (
    StartProblem,
    check_start,
    pod_environment,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

# What a simulated kubelet writes about one pod.


@dataclass(frozen=True, slots=True)
class WriteAnnotations:
    """Merge-patch these annotations into the pod."""

    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Strategic-merge-patch the pod's status with this body."""

    body: Json


@dataclass(frozen=True, slots=True)
class FinishDeletion:
    """Delete the pod with grace period 0, because its containers have ended."""


KubeletStep = WriteAnnotations | ReportStatus | FinishDeletion


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSteps:
    """What to write about one pod, in order."""

    pod: PodKey
    uid: str
    steps: tuple[KubeletStep, ...]


# The behaviour of a simulated pod, from its annotations.


RUN_SECONDS = "kubeshare.sim/run-seconds"
EXIT_CODE = "kubeshare.sim/exit-code"
START_SECONDS = "kubeshare.sim/start-seconds"
STOP_SECONDS = "kubeshare.sim/stop-seconds"
#: Written by the simulated kubelet: each container's environment, as JSON.
ENVIRONMENT = "kubeshare.sim/env"

_HIGHEST_EXIT_CODE = 255


class PlanProblem(ValueError):
    """An annotation with a bad value; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Durations in seconds. `run_s` None: it runs until it is deleted.

    `start_s` is how long its containers take to be created, `stop_s` how long they take to end
    after a deletion, at most the pod's grace period.
    """

    run_s: float | None = None
    exit_code: int = 0
    start_s: float = 0.0
    stop_s: float = 0.0


def read_plan(annotations: Mapping[str, str] | None, stop_s: float = 0.0) -> RunPlan:
    """Read a pod's annotations; `stop_s` is the default. Raises PlanProblem."""
    found = annotations or {}
    stop = _seconds(found, STOP_SECONDS)
    return RunPlan(
        run_s=_seconds(found, RUN_SECONDS),
        exit_code=_exit_code(found),
        start_s=_seconds(found, START_SECONDS) or 0.0,
        stop_s=stop_s if stop is None else stop,
    )


def _seconds(annotations: Mapping[str, str], name: str) -> float | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise PlanProblem(f"annotation {name}: {text!r} is not a number of seconds")
    return value


def _exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not (text.isascii() and text.isdecimal() and int(text[:9]) <= _HIGHEST_EXIT_CODE):
        raise PlanProblem(f"annotation {EXIT_CODE}: {text!r} is not a number from 0 to 255")
    return int(text)


# Pod status as a kubelet reports it, as bodies of strategic merge patches to pods/status.


#: Exit code of a process that ended by SIGTERM.
TERMINATED = 143


def pod_ip(pod: UnstructuredObject) -> str:
    """An address made from the pod's uid."""
    number = zlib.crc32(pod.uid.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def creating(pod: UnstructuredObject, host_ip: str, now: float) -> Json:
    """The node has the pod and its containers are being created."""
    return _waiting(pod, host_ip, now, {"reason": "ContainerCreating"})


def not_creatable(pod: UnstructuredObject, host_ip: str, now: float, message: str) -> Json:
    """The node cannot start the pod; `message` says why."""
    return _waiting(pod, host_ip, now, {"reason": "CreateContainerConfigError", "message": message})


def running(pod: UnstructuredObject, host_ip: str, now: float, restarts: int, last: Json) -> Json:
    """All containers run since `now`; `last` is how they ended before ({} if they did not)."""
    state = {"running": {"startedAt": timestamp(now)}}
    status = _status(pod, host_ip, now, "Running", ready=True)
    if restarts:
        # The pod itself started once.
        status["startTime"] = pod.status.get("startTime") or status["startTime"]
    address = pod_ip(pod)
    status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["initContainerStatuses"] = _init_containers(pod, now)
    status["containerStatuses"] = _containers(pod, state, restarts, last, ready=True)
    return {"status": status}


def backing_off(
    pod: UnstructuredObject, host_ip: str, now: float, restarts: int, last: Json
) -> Json:
    """All containers ended and wait for their next start."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting container"}}
    status = _status(pod, host_ip, now, "Running", ready=False, reason="ContainersNotReady")
    status["containerStatuses"] = _containers(pod, state, restarts, last, ready=False)
    return {"status": status}


def ended(pod: UnstructuredObject, host_ip: str, restarts: int, last: Json) -> Json:
    """All containers ended for good, as `last` says."""
    succeeded = last["terminated"]["exitCode"] == 0
    now_text = last["terminated"]["finishedAt"]
    reason = "PodCompleted" if succeeded else "PodFailed"
    return {
        "status": {
            "phase": "Succeeded" if succeeded else "Failed",
            "conditions": _conditions(now_text, ready=False, reason=reason),
            "containerStatuses": _containers(pod, last, restarts, {}, ready=False),
        }
    }


def never_started(now: float) -> Json:
    """The state of a container that a deletion came before, as kubelet's TerminatePod writes it."""
    unknown = termination(now, now, TERMINATED)
    unknown["terminated"]["reason"] = "ContainerStatusUnknown"
    return unknown


def termination(started_at: float, now: float, exit_code: int) -> Json:
    """A container state that ended at `now`."""
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "startedAt": timestamp(started_at),
            "finishedAt": timestamp(now),
        }
    }


def _waiting(pod: UnstructuredObject, host_ip: str, now: float, why: Json) -> Json:
    status = _status(pod, host_ip, now, "Pending", ready=False, reason="ContainersNotReady")
    status["containerStatuses"] = _containers(pod, {"waiting": why}, 0, {}, ready=False)
    return {"status": status}


def _status(
    pod: UnstructuredObject, host_ip: str, now: float, phase: str, *, ready: bool, reason: str = ""
) -> Json:
    return {
        "phase": phase,
        "startTime": pod.status.get("startTime") or timestamp(now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": timestamp(now)},
            *_conditions(timestamp(now), ready=ready, reason=reason),
        ],
    }


def _conditions(now: str, *, ready: bool, reason: str) -> list[Json]:
    state: Json = {"status": "True" if ready else "False", "lastTransitionTime": now}
    # null removes the reason that an earlier report gave.
    state["reason"] = reason or None
    return [{"type": kind, **state} for kind in ("ContainersReady", "Ready")]


def _containers(
    pod: UnstructuredObject, state: Json, restarts: int, last: Json, *, ready: bool
) -> list[Json]:
    return [
        {
            **_container(container, state, last),
            "containerID": f"simulated://{pod.uid}/{container['name']}/{restarts}",
            "ready": ready,
            "restartCount": restarts,
        }
        for container in pod.spec.get("containers") or []
    ]


def _container(container: Json, state: Json, last: Json) -> Json:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"simulated://{image}",
        "started": "running" in state,
        "state": state,
        "lastState": last,
    }


def _init_containers(pod: UnstructuredObject, now: float) -> list[Json]:
    """Init containers take no time; those with restartPolicy Always (sidecars) go on running."""
    done = termination(now, now, 0)
    going = {"running": {"startedAt": timestamp(now)}}
    return [
        {
            **_container(one, going if one.get("restartPolicy") == "Always" else done, {}),
            "ready": True,
            "restartCount": 0,
        }
        for one in pod.spec.get("initContainers") or []
    ]


# Which pods their nodes may start: those whose volumes are bound, and whose devices are theirs.


#: The kinds that are followed for this.
CLAIM_KINDS = (CLAIMS, DEVICE_CLAIMS)
_Place = tuple[str, str]


class ClaimReadiness:
    """Claims of both kinds as the nodes have seen them."""

    def __init__(self) -> None:
        self._known: dict[ObjectKind, dict[str, UnstructuredObject]] = {
            kind: {} for kind in CLAIM_KINDS
        }
        self._places: dict[tuple[ObjectKind, _Place], UnstructuredObject] = {}

    def listed(self, kind: ObjectKind, found: Iterable[UnstructuredObject]) -> None:
        """Take in all claims of a kind."""
        for uid in [*self._known[kind]]:
            self.gone(kind, uid)
        for claim in found:
            self.seen(kind, claim)

    def seen(self, kind: ObjectKind, claim: UnstructuredObject) -> None:
        """Take in a claim as it is now."""
        self._known[kind][claim.uid] = claim
        self._places[kind, (claim.metadata.namespace, claim.metadata.name)] = claim

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that a claim was deleted."""
        claim = self._known[kind].pop(uid, None)
        if claim is None:
            return
        key = kind, (claim.metadata.namespace, claim.metadata.name)
        if self._places[key].uid == uid:
            del self._places[key]

    def missing(self, pod: UnstructuredObject) -> list[str]:
        """The pod's volumes that are not bound, and its device claims not reserved for it."""
        volumes = pod.spec.get("volumes") or []
        devices = pod.spec.get("resourceClaims") or []
        if not volumes and not devices:
            return []
        return [
            *(one["name"] for one in volumes if not self._is_mountable(pod, one)),
            *(one["name"] for one in devices if not self._is_prepared(pod, one)),
        ]

    def _is_mountable(self, pod: UnstructuredObject, volume: Json) -> bool:
        if "persistentVolumeClaim" in volume:
            claim = self._at(CLAIMS, pod, volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            claim = self._at(CLAIMS, pod, f"{pod.metadata.name}-{volume['name']}")
            owners = (claim.metadata.ownerReferences or []) if claim is not None else []
            if not any(owner.uid == pod.uid for owner in owners):
                return False
        else:
            return True
        return claim is not None and claim.status.get("phase") == "Bound"

    def _is_prepared(self, pod: UnstructuredObject, entry: Json) -> bool:
        made = {
            one["name"]: one.get("resourceClaimName", "")
            for one in pod.status.get("resourceClaimStatuses") or []
        }
        name = entry.get("resourceClaimName") or made.get(entry["name"], "")
        claim = self._at(DEVICE_CLAIMS, pod, name)
        if claim is None or "allocation" not in claim.status:
            return False
        return any(one.get("uid") == pod.uid for one in claim.status.get("reservedFor") or [])

    def _at(
        self, kind: ObjectKind, pod: UnstructuredObject, name: str
    ) -> UnstructuredObject | None:
        return self._places.get((kind, (pod.metadata.namespace, name)))


#: The second restart waits this long (s), each later one twice as long, up to the limit.
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 10.0, 300.0


class _Stage(Enum):
    WAITING = auto()  # its start is due
    BLOCKED = auto()  # a claim of it is not ready
    CREATING = auto()
    RUNNING = auto()
    BACKING_OFF = auto()
    ENDED = auto()  # finished, or never to be started
    STOPPING = auto()
    STOPPED = auto()


@dataclass(slots=True, kw_only=True)
class _CardTenant:
    """A pod on its node. `due_at` None: nothing is due until something happens."""

    pod: UnstructuredObject
    stage: _Stage
    plan: RunPlan = field(default_factory=RunPlan)
    due_at: float | None = None
    started_at: float | None = None
    restarts: int = 0
    last: Json = field(default_factory=dict)


class Kubelets:
    """All simulated nodes together; `addresses` gives each one's IP address."""

    def __init__(self, addresses: Mapping[NodeName, str], *, stop_s: float = 0.0) -> None:
        """`stop_s`: how long (s) pods take to end that do not state it themselves."""
        self._addresses = addresses
        self._stop_s = stop_s
        self._tenants: dict[str, _CardTenant] = {}
        self._agenda: list[tuple[float, str]] = []
        self._lost: set[NodeName] = set()
        #: After a change of these, `claims_changed` must be called.
        self.claims = ClaimReadiness()

    def claims_changed(self, now: float) -> None:
        """Look again at the pods that wait for their claims."""
        for tenant in self._tenants.values():
            if tenant.stage is _Stage.BLOCKED and not self.claims.missing(tenant.pod):
                self._schedule(tenant, now)

    def pods_listed(self, pods: Iterable[UnstructuredObject], now: float) -> None:
        """Take in a complete list; pods that are not in it are gone."""
        present = {pod.uid: pod for pod in pods}
        for uid in [uid for uid in self._tenants if uid not in present]:
            self.pod_gone(uid)
        for pod in present.values():
            self.pod_seen(pod, now)

    def pod_seen(self, pod: UnstructuredObject, now: float) -> None:
        """Take in a pod as it is now; unbound ones and those of other nodes are ignored."""
        if pod.spec.get("nodeName") not in self._addresses:
            return
        tenant = self._tenants.get(pod.uid)
        if tenant is None:
            tenant = self._tenants[pod.uid] = _CardTenant(pod=pod, stage=_Stage.WAITING)
            self._take_over(tenant, now)
        else:
            tenant.pod = pod
            self._follow(tenant)
            if tenant.stage is _Stage.BLOCKED and not self.claims.missing(pod):
                self._schedule(tenant, now)
        self._notice_deletion(tenant, now)

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod was deleted."""
        self._tenants.pop(uid, None)

    def lose(self, node: NodeName) -> None:
        """Let a node fall silent: its pods go on, but nothing is written about them."""
        self._lost.add(node)

    def come_back(self, node: NodeName) -> None:
        """Let a lost node write again; what became due meanwhile is due now."""
        self._lost.discard(node)
        for uid, tenant in self._tenants.items():
            if tenant.due_at is not None and tenant.pod.spec["nodeName"] == node:
                heapq.heappush(self._agenda, (tenant.due_at, uid))

    def wake_at(self) -> float | None:
        """When `due` will have something, at the latest; None if only after something happens."""
        return self._agenda[0][0] if self._agenda else None

    def due(self, now: float) -> Iterator[PodSteps]:
        """Everything to write now, each once."""
        while self._agenda and self._agenda[0][0] <= now:
            due_at, uid = heapq.heappop(self._agenda)
            tenant = self._tenants.get(uid)
            # Entries of the agenda are not removed when plans change; a stale one is skipped.
            if tenant is None or tenant.due_at != due_at or self._is_lost(tenant):
                continue
            tenant.due_at = None
            steps = self._next(tenant, now)
            if steps:
                metadata = tenant.pod.metadata
                key = PodKey(metadata.namespace, metadata.name)
                yield PodSteps(pod=key, uid=uid, steps=steps)

    def _is_lost(self, tenant: _CardTenant) -> bool:
        return tenant.pod.spec["nodeName"] in self._lost

    def _schedule(self, tenant: _CardTenant, due_at: float | None) -> None:
        tenant.due_at = due_at
        if due_at is not None and not self._is_lost(tenant):
            heapq.heappush(self._agenda, (due_at, tenant.pod.uid))

    def _take_over(self, tenant: _CardTenant, now: float) -> None:
        """See a pod for the first time: new, or left by an earlier process in this state."""
        pod = tenant.pod
        if is_finished(pod):
            tenant.stage = _Stage.ENDED
            return
        statuses = pod.status.get("containerStatuses") or [{}]
        started = statuses[0].get("state", {}).get("running", {}).get("startedAt")
        tenant.restarts = statuses[0].get("restartCount", 0)
        if phase(pod) == "Running" and started:
            tenant.stage, tenant.started_at = _Stage.RUNNING, seconds(started)
            self._follow(tenant)
        else:
            self._schedule(tenant, now)

    def _follow(self, tenant: _CardTenant) -> None:
        """Follow changed annotations of a running pod, and a phase that others set."""
        if tenant.stage is not _Stage.RUNNING or tenant.started_at is None:
            return
        if is_finished(tenant.pod):
            tenant.stage, tenant.due_at = _Stage.ENDED, None
            return
        try:
            tenant.plan = read_plan(tenant.pod.metadata.annotations, self._stop_s)
        except PlanProblem:
            return  # It runs as planned before.
        run_s = tenant.plan.run_s
        due_at = None if run_s is None else tenant.started_at + run_s
        if due_at != tenant.due_at:
            self._schedule(tenant, due_at)

    def _notice_deletion(self, tenant: _CardTenant, now: float) -> None:
        until = tenant.pod.metadata.deletionTimestamp
        if until is None or tenant.stage in (_Stage.STOPPING, _Stage.STOPPED):
            return
        runs = tenant.stage in (_Stage.RUNNING, _Stage.BACKING_OFF)
        if not runs:
            tenant.started_at = None
        tenant.stage = _Stage.STOPPING
        stop_s = tenant.plan.stop_s if runs else 0.0
        self._schedule(tenant, max(now, min(now + stop_s, seconds(until))))

    def _next(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        match tenant.stage:
            case _Stage.WAITING | _Stage.BLOCKED:
                return self._create(tenant, now)
            case _Stage.CREATING | _Stage.BACKING_OFF:
                return self._start(tenant, now)
            case _Stage.RUNNING:
                return self._end(tenant, now)
            case _Stage.STOPPING:
                return self._stop(tenant, now)
            case _Stage.ENDED | _Stage.STOPPED:
                return ()

    def _create(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        address = self._address(tenant)
        if self.claims.missing(tenant.pod):
            told = tenant.stage is _Stage.BLOCKED
            tenant.stage = _Stage.BLOCKED
            body = creating(tenant.pod, address, now)
            return () if told else (ReportStatus(body),)
        try:
            tenant.plan = read_plan(tenant.pod.metadata.annotations, self._stop_s)
        except PlanProblem as problem:
            tenant.stage = _Stage.ENDED
            body = not_creatable(tenant.pod, address, now, str(problem))
            return (ReportStatus(body),)
        if tenant.plan.start_s == 0:
            return self._start(tenant, now)
        tenant.stage = _Stage.CREATING
        self._schedule(tenant, now + tenant.plan.start_s)
        return (ReportStatus(creating(tenant.pod, address, now)),)

    def _start(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        pod, address = tenant.pod, self._address(tenant)
        if tenant.last:
            tenant.restarts += 1
        environment = pod_environment(pod, address, pod_ip(pod))
        try:
            check_start(pod, environment)
        except StartProblem as problem:
            tenant.stage = _Stage.ENDED
            body = not_creatable(pod, address, now, str(problem))
            return (ReportStatus(body),)
        tenant.stage, tenant.started_at = _Stage.RUNNING, now
        self._schedule(tenant, None if tenant.plan.run_s is None else now + tenant.plan.run_s)
        text = json.dumps(environment, ensure_ascii=False, separators=(",", ":"))
        report = ReportStatus(running(pod, address, now, tenant.restarts, tenant.last))
        if (pod.metadata.annotations or {}).get(ENVIRONMENT) == text:
            return (report,)
        return WriteAnnotations({ENVIRONMENT: text}), report

    def _end(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        pod, address = tenant.pod, self._address(tenant)
        exit_code = tenant.plan.exit_code
        tenant.last = termination(tenant.started_at or now, now, exit_code)
        policy = pod.spec.get("restartPolicy") or "Always"
        if policy == "Never" or (policy == "OnFailure" and exit_code == 0):
            tenant.stage = _Stage.ENDED
            return (ReportStatus(ended(pod, address, tenant.restarts, tenant.last)),)
        if tenant.restarts == 0:
            return self._start(tenant, now)
        wait_s = min(FIRST_BACKOFF_S * 2 ** (tenant.restarts - 1), LONGEST_BACKOFF_S)
        tenant.stage = _Stage.BACKING_OFF
        self._schedule(tenant, now + wait_s)
        body = backing_off(pod, address, now, tenant.restarts, tenant.last)
        return (ReportStatus(body),)

    def _stop(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        tenant.stage = _Stage.STOPPED
        if tenant.pod.status.get("phase") in ("Succeeded", "Failed"):
            return (FinishDeletion(),)
        if tenant.started_at is None:
            # kubelet reports an end of every pod: what waits for it waits no grace period.
            last = never_started(now)
        else:
            last = termination(tenant.started_at, now, TERMINATED)
        body = ended(tenant.pod, self._address(tenant), tenant.restarts, last)
        return ReportStatus(body), FinishDeletion()

    def _address(self, tenant: _CardTenant) -> str:
        return self._addresses[tenant.pod.spec["nodeName"]]
