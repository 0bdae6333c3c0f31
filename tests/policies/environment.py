"""The chart's policies and its webhook side by side on one API server, in namespaces of their own.

So the same pod can be sent through both.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import yaml

from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import (
    ABOUT_PODS,
    POLICIES,
    RUNTIME_CLASS,
    Json,
    is_about_bindings,
    limits_token,
    parts_only_in,
    write,
)
from tests.dialects.halves import HALF
from tests.patience import PATIENCE_S

#: Told by policy, by the webhook, by policy and guarded, by nobody but guarded; exempt.
POLICY, WEBHOOK, GUARDED, UNTOLD = "by-policy", "by-webhook", "guarded", "untold"
EXEMPT = "exempt"
#: Patched by policy and then by the webhook, as during an upgrade from one to the other.
BOTH = "by-both"
#: As the webhook runs, and how many of it: each is its own authority.
ACCOUNT, REPLICAS = "kubeshare-admission", 2
#: May edit what is in the namespace `guarded`, as users of a cluster do.
USER = "jane"
_GUARDED_BY = {"ValidatingAdmissionPolicy": [GUARDED, UNTOLD, EXEMPT]}
_TOLD_BY_POLICY = {
    "MutatingAdmissionPolicy": [POLICY, GUARDED, EXEMPT, BOTH],
    "MutatingWebhookConfiguration": [WEBHOOK, BOTH],
}
#: Labels are looked at everywhere but where the webhook does it.
_VALIDATED = {"ValidatingAdmissionPolicy": [POLICY, GUARDED, UNTOLD, EXEMPT]}
#: Parts of the policy about pods that are not about labels.
_OF_ENVIRONMENT = ("results", "settled", "containers", "others", "devices")
_OF_LABELS = (ABOUT_PODS, "kubeshare-label-warnings")
#: Before Kubernetes 1.36: nobody is told by policy.
_TOLD_BY_WEBHOOK = {"MutatingWebhookConfiguration": [WEBHOOK, GUARDED, EXEMPT]}
#: Its account, and what that may write.
_OF_WEBHOOK = {
    *((kind, ACCOUNT) for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")),
    *((kind, "kubeshare-token-webhook") for kind in POLICIES),
}
#: Namespaces by the kind of what is in force in them.
Where = Mapping[str, list[str]]
_SHARE = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
#: Ask in the rules about containers for whole cards, and for whole cards from 100 on.
WHOLE, PERCENT = "example.com/whole", "example.com/percent"
#: Counted in containers, and not in init containers.
UNITS = "example.com/units"
#: Variables of containers that ask for a share: of an annotation of their own, and of the pod's.
TOLD = {"OWN_SHARE": "example.com/{container}.share", "CARD": "example.com/card"}
_CONTAINER_RULES = [
    {"resource": HALF, "sees": "share", "variables": TOLD},
    {"resource": WHOLE, "sees": "whole"},
    {"resource": PERCENT, "sees": "share", "wholeFrom": 100},
    {"resource": UNITS, "sees": "share", "variables": TOLD, "initContainers": False},
]
_PROFILE = {"isolation": [one.value for one in IsolationBackend]}


@dataclass(frozen=True)
class Clients:
    """An administrator's, and that of somebody who may edit one namespace."""

    admin: KubeClient
    user: KubeClient
    has_policies: bool

    async def would_be(self, pod: Json, namespace: str) -> Json:
        """The pod as it would be stored."""
        return await self.admin.create(pods_of(namespace), pod, {"dryRun": "All"})


def pods_of(namespace: str) -> str:
    """The path of its pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


@contextmanager
def installed(plane: ControlPlane, folder: Path) -> Iterator[ControlPlane]:
    """Policies and webhooks while entered; the API server calls the last replica."""
    ports = free_ports(REPLICAS)
    where = _GUARDED_BY | (_TOLD_BY_POLICY if has_policies(plane) else _TOLD_BY_WEBHOOK)
    objects = [RUNTIME_CLASS, *_namespaces(), *_policies(where), *_webhook(ports[-1], where)]
    file = write(objects, folder / "admission.yaml")
    plane.create(file)
    with ExitStack() as stack:
        stack.callback(plane.delete, file)
        for port in ports:
            stack.enter_context(process(_command(plane, folder, port), folder / f"{port}.log"))
        yield plane


def has_policies(plane: ControlPlane) -> bool:
    """Whether the API server may change pods by policies; otherwise only the webhook does."""
    return plane.has("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies")


@asynccontextmanager
async def clients(plane: ControlPlane, folder: Path) -> AsyncIterator[Clients]:
    """Clients of it, once the policies are in force and the webhook is trusted."""
    own = await asyncio.to_thread(kubeconfig, plane, folder, GUARDED, USER)
    async with (
        KubeClient(load(str(plane.kubeconfig))) as admin,
        KubeClient(load(str(own))) as user,
    ):
        found = Clients(admin, user, has_policies(plane))
        await _in_force(found)
        yield found


def a_pod(labels: Json | None = None, *env: Json, **spec: object) -> Json:
    """A pod of ours with one container."""
    container = {"name": "main", "image": "busybox", **({"env": list(env)} if env else {})}
    fields = {
        "schedulerName": "kubeshare-scheduler",
        "automountServiceAccountToken": False,
        "containers": [container],
        **spec,
    }
    metadata = {"name": "p", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": fields}


async def _in_force(found: Clients) -> None:
    """Wait until both ways, others' too, have effect, and until the guard refuses."""
    others = a_pod(schedulerName="default-scheduler")
    mine = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    async with asyncio.timeout(PATIENCE_S):
        for namespace in (*([POLICY, BOTH] if found.has_policies else []), WEBHOOK, GUARDED):
            for pod in (a_pod(), a_pod(_SHARE), others):
                await _until(True, found, pod, namespace)
        forged = a_pod()
        forged["metadata"]["annotations"] = {"sharedgpu/gpu_uuid": "GPU-1"}
        others = a_pod({}, mine, schedulerName="default-scheduler")
        for pod in (a_pod({}, mine), others, forged):
            await _until(False, found, pod, GUARDED)


async def _until(told: bool, found: Clients, pod: Json, namespace: str) -> None:
    while True:
        if await _is_told(found, pod, namespace) is told:
            return
        await asyncio.sleep(0.05)


async def _is_told(found: Clients, pod: Json, namespace: str) -> bool:
    try:
        made = await found.would_be(pod, namespace)
    except KubeError as error:
        # A namespace's account is made by a controller, and a webhook is trusted after a while.
        passing = re.search("serviceaccount|failed calling webhook", error.message)
        if error.status != HTTPStatus.FORBIDDEN and not passing:
            raise
        return False
    return bool(made["spec"]["containers"][0].get("env"))


def _objects(by: str) -> list[Json]:
    """The chart's objects, for pods of others as well."""
    text = template(
        f"--set=admission.by={by},admission.others=true,mps.external=true",
        f"--set-json=config.profiles={json.dumps([_PROFILE])}",
        f"--set-json=admission.containerRules={json.dumps(_CONTAINER_RULES)}",
        kubernetes=PLAIN_FOR,
    )
    return [one for one in yaml.safe_load_all(text) if one]


def _policies(where: Where) -> Iterator[Json]:
    """Those about pods, for their namespaces alone."""
    for one in _objects("policy"):
        kind = one["kind"].removesuffix("Binding")
        # The fence looks at a Lease that nobody holds here; what limits tokens is there anyhow.
        name = one["metadata"]["name"]
        if kind in where and not (is_about_bindings(one) or limits_token(one)):
            guarded = parts_only_in(one, where[POLICIES[0]], *_OF_ENVIRONMENT)
            yield _confined(guarded, where if name not in _OF_LABELS else _VALIDATED)


def _webhook(port: int, where: Where) -> Iterator[Json]:
    """The webhooks at this machine, for there are no Services; their account and its limits."""
    for one in _objects("webhook"):
        if one["kind"] == "MutatingWebhookConfiguration":
            for webhook in one["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}"}
                webhook["timeoutSeconds"] = 10
            yield _confined(one, where)
        elif (one["kind"], one["metadata"]["name"]) in _OF_WEBHOOK:
            yield one


def _confined(one: Json, where: Where) -> Json:
    """The same for its namespaces alone."""
    parts = one.get("webhooks") or [one["spec"].get("matchConstraints")]
    key = "kubernetes.io/metadata.name"
    for part in filter(None, parts):
        selector = part.setdefault("namespaceSelector", {}).setdefault("matchExpressions", [])
        selector.append({"key": key, "operator": "In", "values": where[one["kind"]]})
    return one


def _command(plane: ControlPlane, folder: Path, port: int) -> list[str | Path]:
    configuration = folder / "scheduler.yaml"
    head = {"apiVersion": "kubeshare.io/v1", "kind": "KubeShareSchedulerConfiguration"}
    configuration.write_text(yaml.safe_dump({**head, "profiles": [_PROFILE]}))
    own = kubeconfig(plane, folder, "kube-system", ACCOUNT)
    return [
        *(sys.executable, "-m", "kubeshare_cmd.admission", "--address=127.0.0.1"),
        *(f"--port={port}", f"--config={configuration}", f"--kubeconfig={own}"),
        "--runtime-class=nvidia",
    ]


def kubeconfig(plane: ControlPlane, folder: Path, namespace: str, account: str) -> Path:
    """One with a token of this ServiceAccount."""
    tokens = {account: plane.token_of(namespace, account)}
    secrets = replace(plane.secrets, tokens=tokens)
    return secrets.write_kubeconfig(folder / f"{account}.kubeconfig", plane.url, account)


def _namespaces() -> Iterator[Json]:
    for name in (POLICY, WEBHOOK, GUARDED, UNTOLD, EXEMPT, BOTH):
        labels = {"kubeshare.io/exempt": "true"} if name == EXEMPT else {}
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    place = {"name": USER, "namespace": GUARDED}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place}
    group = "rbac.authorization.k8s.io"
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": place,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", **place}],
    }
