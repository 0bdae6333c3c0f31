"""The chart's policies and its webhook side by side on one API server, in namespaces of their own.

So the same pod can be sent through both.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml

from kubeshare_py.admission.review import answer, answer_of_others
from kubeshare_py.domain.isolation import IsolationBackend, IsolationChoice
from kubeshare_py.edges.admission_server import serve
from kubeshare_py.edges.certificates import Certificates, make_certificates
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_config import load
from kubeshare_py.edges.kube_errors import KubeError
from tests.controlplane.helm import template
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import Json, write

#: Told by policy, told by the webhook, told by policy and guarded; guarded and told by nobody; exempt.
POLICY, WEBHOOK, GUARDED, UNTOLD = "by-policy", "by-webhook", "guarded", "untold"
EXEMPT = "exempt"
#: What the release's profile allows; the first is taken by default.
CHOICES = {"kubeshare-scheduler": IsolationChoice(tuple(IsolationBackend))}
#: May edit what is in the namespace `guarded`, as users of a cluster do.
USER = "jane"
_WHERE = {
    "MutatingAdmissionPolicy": [POLICY, GUARDED, EXEMPT],
    "ValidatingAdmissionPolicy": [GUARDED, UNTOLD, EXEMPT],
    "MutatingWebhookConfiguration": [WEBHOOK],
}
_SHARE = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}


@dataclass(frozen=True)
class Clients:
    """An administrator's, and that of somebody who may edit one namespace."""

    admin: KubeClient
    user: KubeClient

    async def would_be(self, pod: Json, namespace: str) -> Json:
        """The pod as it would be stored."""
        return await self.admin.create(pods_of(namespace), pod, {"dryRun": "All"})


@dataclass(frozen=True, slots=True)
class Ground:
    """An API server with all of it installed; the webhook is to be served at this port."""

    plane: ControlPlane
    port: int
    certificates: Certificates


def pods_of(namespace: str) -> str:
    """The path of its pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


@contextmanager
def installed(plane: ControlPlane, folder: Path) -> Iterator[Ground]:
    """Policies and webhook while entered."""
    certificates = make_certificates(folder / "webhook")
    [port] = free_ports(1)
    objects = [*_namespaces(), *_objects("policy")]
    for one in _objects("webhook"):
        if one["kind"] == "MutatingWebhookConfiguration":
            objects.append(_called_at(one, port, certificates))
    file = write(objects, folder / "admission.yaml")
    plane.create(file)
    try:
        yield Ground(plane, port, certificates)
    finally:
        plane.delete(file)


@asynccontextmanager
async def clients(ground: Ground, folder: Path) -> AsyncIterator[Clients]:
    """Clients of it, with the webhook served and the policies in force."""
    plane = ground.plane
    token = await asyncio.to_thread(plane.token_of, GUARDED, USER)
    secrets = replace(plane.secrets, tokens={USER: token})
    own = secrets.write_kubeconfig(folder / "user", plane.url, USER)
    webhook = serve(
        "127.0.0.1", ground.port, ground.certificates.server_context(),
        pods=partial(answer, choices=CHOICES), others=answer_of_others, problem=lambda: "",
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(webhook)
        admin = await stack.enter_async_context(KubeClient(load(str(plane.kubeconfig))))
        user = await stack.enter_async_context(KubeClient(load(str(own))))
        found = Clients(admin, user)
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
    async with asyncio.timeout(30):
        for namespace in (POLICY, WEBHOOK, GUARDED):
            for pod in (a_pod(), a_pod(_SHARE), others):
                await _until(True, found, pod, namespace)
        for pod in (a_pod({}, mine), a_pod({}, mine, schedulerName="default-scheduler")):
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
        # A namespace's account is made by a controller.
        if "serviceaccount" not in error.message and error.status != 403:
            raise
        return False
    return bool(made["spec"]["containers"][0].get("env"))


def _objects(by: str) -> Iterator[Json]:
    """The chart's admission objects, for pods of others as well."""
    profile = {"isolation": [one.value for one in IsolationBackend]}
    text = template(
        f"--set=admission.by={by},admission.others=true",
        f"--set-json=config.profiles={json.dumps([profile])}",
    )
    for one in yaml.safe_load_all(text):
        ours = one and one["metadata"]["name"] not in ("kubeshare-fence", "kubeshare-results")
        if ours and one["kind"].removesuffix("Binding") in _WHERE:
            yield _confined(one)


def _confined(one: Json) -> Json:
    """The same for its namespaces alone."""
    parts = one.get("webhooks") or [one["spec"].get("matchConstraints")]
    key = "kubernetes.io/metadata.name"
    for part in filter(None, parts):
        selector = part.setdefault("namespaceSelector", {}).setdefault("matchExpressions", [])
        selector.append({"key": key, "operator": "In", "values": _WHERE[one["kind"]]})
    return one


def _called_at(configuration: Json, port: int, certificates: Certificates) -> Json:
    """The webhooks at this machine: there are no Services here."""
    bundle = base64.b64encode(certificates.ca_file.read_bytes()).decode()
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        url = f"https://127.0.0.1:{port}{path}"
        webhook["clientConfig"] = {"url": url, "caBundle": bundle}
        webhook["timeoutSeconds"] = 10
    return configuration


def _namespaces() -> Iterator[Json]:
    for name in (POLICY, WEBHOOK, GUARDED, UNTOLD, EXEMPT):
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
