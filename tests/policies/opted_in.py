"""Pods of several dialects, by policy and by webhook side by side, in namespaces that opted in."""

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubeshare_py.admission.dialect_pods import taken_resources
from kubeshare_py.admission.review import Rules, answer, answer_of_others
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import OwnedKeys, ResultKeys
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.nvidia_dialect import Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.edges.admission import serve
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import RUNTIME_CLASS, Json, is_about_bindings, limits_token, write
from tests.dialects.halves import HALVES, Halves
from tests.policies.conftest import expect_let_through, expect_refused
from tests.policies.environment import a_pod, has_policies, pods_of

THIRD, QUARTER = "example.org/third", "example.net/quarter"
OURS, BATCH, HAMI = "kubeshare-scheduler", "batch", "hami-scheduler"
#: Namespaces by what is in force; those of "plain" did not opt in.
POLICY, WEBHOOK = "dialects-by-policy", "dialects-by-webhook"
PLAIN_POLICY, PLAIN_WEBHOOK = "plain-by-policy", "plain-by-webhook"
OPTED_IN = {"kubeshare.io/dialects": "true"}
_SHARE = {"sharedgpu/gpu_request": "0.5"}
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Others(Halves):
    """The same for a resource, a label and a prefix of its own."""

    def __init__(self, name: str, resource: str) -> None:
        self.name = name
        domain = resource.partition("/")[0]
        self.owns = OwnedKeys(
            resources=frozenset({resource}),
            labels=frozenset({f"{domain}/kind"}),
            prefixes=(f"keys.{domain}/",),
        )
        self.result_keys = ResultKeys()
        self.container_rules = (ContainerRule(resource, CardVisibility.SHARE),)


THIRDS, QUARTERS = Others("thirds", THIRD), Others("quarters", QUARTER)
_PROFILES = {
    OURS: (SHAREDGPU, HALVES, THIRDS),
    BATCH: (HALVES, QUARTERS),
    HAMI: (SHAREDGPU, Nvidia(), Hami()),
}
DIALECTS = Dialects(_PROFILES)
CHOICES = {name: IsolationChoice((IsolationBackend.NONE,)) for name in _PROFILES}
RULES = Rules(choices=CHOICES, dialects=DIALECTS, runtime_class="nvidia")


def taking(*, contested: bool = False) -> Mapping[str, str]:
    """The resources by which pods become ours."""
    return taken_resources(DIALECTS, CHOICES, contested=contested)


def _extra() -> list[Json]:
    return [
        {
            "name": one.name,
            "labels": sorted(one.owns.labels),
            "prefixes": sorted(one.owns.prefixes),
            "resources": sorted(one.owns.resources),
            "contested": sorted(one.owns.contested),
            "resultKeys": sorted(one.result_keys.scheduler),
            "resultPrefixes": sorted(one.result_keys.prefixes),
            "devicePluginKeys": dict(one.result_keys.device_plugin),
        }
        for one in (HALVES, THIRDS, QUARTERS)
    ]


def _chart(by: str) -> list[Json]:
    profiles = [
        {"schedulerName": name, "dialects": [{"name": one.name} for one in table.dialects]}
        for name in CHOICES
        for table in (DIALECTS.of(name),)
    ]
    rules = [
        {"resource": rule.resource, "sees": rule.sees.value}
        for one in (HALVES, THIRDS, QUARTERS)
        for rule in one.container_rules
    ]
    text = template(
        f"--set=admission.by={by}",
        f"--set-json=config.profiles={json.dumps(profiles)}",
        f"--set-json=extraDialects={json.dumps(_extra())}",
        f"--set-json=admission.containerRules={json.dumps(rules)}",
        kubernetes=PLAIN_FOR,
    )
    return [one for one in yaml.safe_load_all(text) if one]


def objects() -> Iterator[Json]:
    """Namespaces, and the policies for those of them that no webhook looks after."""
    for name in (POLICY, WEBHOOK, PLAIN_POLICY, PLAIN_WEBHOOK):
        labels = OPTED_IN if name in (POLICY, WEBHOOK) else {}
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    yield RUNTIME_CLASS
    for one in _chart("policy"):
        kind = one["kind"].removesuffix("Binding")
        name = one["metadata"]["name"]
        if kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy") and not (
            is_about_bindings(one) or limits_token(one)
        ):
            if matched := one["spec"].get("matchConstraints"):
                _confine(matched, POLICY, PLAIN_POLICY)
            yield one


@asynccontextmanager
async def webhook(folder: Path) -> AsyncIterator[Json]:
    """Serve the webhook's code while entered; yields the object by which it is called."""
    made = make_certificates(folder)
    [port] = free_ports(1)
    bundle = base64.b64encode(made.ca_file.read_bytes()).decode()
    [found] = [one for one in _chart("webhook") if one["kind"] == "MutatingWebhookConfiguration"]
    found["metadata"]["name"] = "dialects-of-tests"
    for one in found["webhooks"]:
        path = one["clientConfig"]["service"]["path"]
        url = f"https://127.0.0.1:{port}{path}"
        one["clientConfig"] = {"url": url, "caBundle": bundle}
        _confine(one, WEBHOOK, PLAIN_WEBHOOK)
    taken = Rules(choices=CHOICES, dialects=DIALECTS, runtime_class="nvidia", taken=taking())
    async with serve(
        "127.0.0.1",
        port,
        made.server_context(),
        {
            "/pods": partial(answer, rules=RULES),
            "/dialect-pods": partial(answer, rules=taken),
            "/others": answer_of_others,
        },
        problem=lambda: "",
    ):
        yield found


@contextmanager
def installed(plane: ControlPlane | None, folder: Path) -> Iterator[ControlPlane]:
    """The namespaces and policies while entered; skips the test where there are none."""
    assert plane is not None
    if not has_policies(plane):
        pytest.skip("MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on")
    file = write([*objects()], folder / "objects.yaml")
    plane.create(file)
    yield plane
    plane.delete(file)


@asynccontextmanager
async def administrator(plane: ControlPlane, folder: Path) -> AsyncIterator[KubeClient]:
    """A client, once policies and webhook are in force."""
    async with KubeClient(load(str(plane.kubeconfig))) as client, webhook(folder) as hook:
        await client.create(WEBHOOKS, hook)
        dry = {"dryRun": "All"}
        wrong = a_pod({"sharedgpu/gpu_requset": "1"})
        for namespace in (POLICY, PLAIN_POLICY, WEBHOOK, PLAIN_WEBHOOK):
            paths = pods_of(namespace)
            await expect_let_through(partial(client.create, paths, a_pod(), dry))
            await _expect_invalid(client, paths, wrong)
            await _expect_told(client, paths)
        yield client
        await client.delete(f"{WEBHOOKS}/{hook['metadata']['name']}")


async def stored(admin: KubeClient, pod: Json, namespace: str) -> Json | str:
    """The spec as it would be stored, or why it would not."""
    try:
        made = await admin.create(pods_of(namespace), pod, {"dryRun": "All"})
    except KubeError as error:
        return error.message.rpartition("request: ")[2]
    found: Json = made["spec"]
    return found


async def _expect_invalid(client: KubeClient, path: str, pod: Json) -> None:
    async def ask() -> Json:
        try:
            return await client.create(path, pod, {"dryRun": "All"})
        except KubeError as error:
            if error.status == 422:
                raise KubeError(403, "Forbidden", error.message) from error
            raise

    await expect_refused(ask)


async def _expect_told(client: KubeClient, path: str) -> None:
    async def ask() -> Json:
        made = await client.create(path, a_pod(_SHARE), {"dryRun": "All"})
        if not made["spec"]["containers"][0].get("env"):
            raise KubeError(403, "Forbidden", "not yet")
        return made

    await expect_let_through(ask)


def _confine(part: Json, *namespaces: str) -> None:
    selector = part.setdefault("namespaceSelector", {}).setdefault("matchExpressions", [])
    key = "kubernetes.io/metadata.name"
    selector.append({"key": key, "operator": "In", "values": list(namespaces)})
