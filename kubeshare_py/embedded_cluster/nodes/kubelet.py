"""Simulated kubelets: what the nodes do with the pods bound to them, and when.

`pod_seen`, `pod_gone` and `pods_listed` report pods; `due` returns what to write now, and `wake_at`
when to ask again. Each write is returned once; its echo changes nothing.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredObject,
    is_finished,
    phase,
)
from kubeshare_py.embedded_cluster.nodes import kubelet_status
from kubeshare_py.embedded_cluster.nodes.card_runtime import StartProblem, check_start
from kubeshare_py.embedded_cluster.nodes.claim_readiness import ClaimReadiness
from kubeshare_py.embedded_cluster.nodes.environment import pod_environment
from kubeshare_py.embedded_cluster.nodes.kubelet_steps import (
    FinishDeletion,
    KubeletStep,
    PodSteps,
    ReportStatus,
    WriteAnnotations,
)
from kubeshare_py.embedded_cluster.nodes.run_plan import (
    ENVIRONMENT,
    PlanProblem,
    RunPlan,
    read_plan,
)
from kubeshare_py.views.ages import seconds

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
            body = kubelet_status.creating(tenant.pod, address, now)
            return () if told else (ReportStatus(body),)
        try:
            tenant.plan = read_plan(tenant.pod.metadata.annotations, self._stop_s)
        except PlanProblem as problem:
            tenant.stage = _Stage.ENDED
            body = kubelet_status.not_creatable(tenant.pod, address, now, str(problem))
            return (ReportStatus(body),)
        if tenant.plan.start_s == 0:
            return self._start(tenant, now)
        tenant.stage = _Stage.CREATING
        self._schedule(tenant, now + tenant.plan.start_s)
        return (ReportStatus(kubelet_status.creating(tenant.pod, address, now)),)

    def _start(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        pod, address = tenant.pod, self._address(tenant)
        if tenant.last:
            tenant.restarts += 1
        environment = pod_environment(pod, address, kubelet_status.pod_ip(pod))
        try:
            check_start(pod, environment)
        except StartProblem as problem:
            tenant.stage = _Stage.ENDED
            body = kubelet_status.not_creatable(pod, address, now, str(problem))
            return (ReportStatus(body),)
        tenant.stage, tenant.started_at = _Stage.RUNNING, now
        self._schedule(tenant, None if tenant.plan.run_s is None else now + tenant.plan.run_s)
        text = json.dumps(environment, ensure_ascii=False, separators=(",", ":"))
        report = ReportStatus(
            kubelet_status.running(pod, address, now, tenant.restarts, tenant.last)
        )
        if (pod.metadata.annotations or {}).get(ENVIRONMENT) == text:
            return (report,)
        return WriteAnnotations({ENVIRONMENT: text}), report

    def _end(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        pod, address = tenant.pod, self._address(tenant)
        exit_code = tenant.plan.exit_code
        tenant.last = kubelet_status.termination(tenant.started_at or now, now, exit_code)
        policy = pod.spec.get("restartPolicy") or "Always"
        if policy == "Never" or (policy == "OnFailure" and exit_code == 0):
            tenant.stage = _Stage.ENDED
            return (ReportStatus(kubelet_status.ended(pod, address, tenant.restarts, tenant.last)),)
        if tenant.restarts == 0:
            return self._start(tenant, now)
        wait_s = min(FIRST_BACKOFF_S * 2 ** (tenant.restarts - 1), LONGEST_BACKOFF_S)
        tenant.stage = _Stage.BACKING_OFF
        self._schedule(tenant, now + wait_s)
        body = kubelet_status.backing_off(pod, address, now, tenant.restarts, tenant.last)
        return (ReportStatus(body),)

    def _stop(self, tenant: _CardTenant, now: float) -> tuple[KubeletStep, ...]:
        tenant.stage = _Stage.STOPPED
        if tenant.pod.status.get("phase") in ("Succeeded", "Failed"):
            return (FinishDeletion(),)
        if tenant.started_at is None:
            # kubelet reports an end of every pod: what waits for it waits no grace period.
            last = kubelet_status.never_started(now)
        else:
            last = kubelet_status.termination(tenant.started_at, now, kubelet_status.TERMINATED)
        body = kubelet_status.ended(tenant.pod, self._address(tenant), tenant.restarts, last)
        return ReportStatus(body), FinishDeletion()

    def _address(self, tenant: _CardTenant) -> str:
        return self._addresses[tenant.pod.spec["nodeName"]]
