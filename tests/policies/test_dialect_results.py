"""Results of other dialects: the scheduler's, and some of them a device plugin's on its node."""

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials, load
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from tests.controlplane.cleaning import clean
from tests.controlplane.helm import template
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import ABOUT_PODS, POLICIES, Json, parts_only_in, write
from tests.deploy.conftest import kubectl
from tests.dialects.halves import CARDS, OF, SEEN
from tests.policies.conftest import (
    PODS,
    expect_accepted,
    expect_let_through,
    expect_refused,
    pod,
    refused,
)

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

PLUGINS = ("halves-plugin", "former-plugin")
ACCOUNTS = [{"name": name, "namespace": "default"} for name in PLUGINS]
#: An extender of kube-scheduler, as gpushare's.
FORMER = "kube-system/gpushare-schd-extender"
EXTRA = [
    {
        "name": "halves",
        "resultKeys": [CARDS],
        "resultPrefixes": [OF],
        "devicePluginKeys": {SEEN: "default/halves-plugin"},
    }
]
PROFILES = [{"dialects": [{"name": "sharedgpu"}, {"name": "halves"}]}]


def an_object(kind: str, api: str, **parts: object) -> Json:
    return {"kind": kind, "apiVersion": api, **parts}


def objects() -> list[Json]:
    """The policy, and the plugins' accounts, which may do anything."""
    text = template(
        f"--set-json=extraDialects={json.dumps(EXTRA)}",
        f"--set-json=config.profiles={json.dumps(PROFILES)}",
        f"--set-json=policies.formerWriters={json.dumps([FORMER, 'default/former-plugin'])}",
    )
    found = [one for one in yaml.safe_load_all(text) if one]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        *(
            parts_only_in(one, (), "containers", "settled", "labels")
            for one in found
            if (one["kind"], one["metadata"]["name"]) in policies()
        ),
        *(an_object("ServiceAccount", "v1", metadata=one) for one in ACCOUNTS),
        an_object(
            "ClusterRoleBinding",
            "rbac.authorization.k8s.io/v1",
            metadata={"name": "halves-plugin"},
            roleRef=role,
            subjects=[{"kind": "ServiceAccount", **one} for one in ACCOUNTS],
        ),
    ]


def policies() -> set[tuple[str, str]]:
    return {(kind, ABOUT_PODS) for kind in POLICIES}


@pytest.fixture(scope="module")
def guarded_results(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    assert plane is not None
    file = write(objects(), tmp_path_factory.mktemp("results") / "results.yaml")
    plane.create(file)
    yield plane
    plane.delete(file)


@pytest.fixture
async def admin(guarded_results: ControlPlane) -> AsyncIterator[KubeClient]:
    """Pods on both nodes, once the policy is in force."""
    async with KubeClient(load(str(guarded_results.kubeconfig))) as client:
        await clean(client)
        for name in ("n1", "n2"):
            await client.create("/api/v1/nodes", an_object("Node", "v1", metadata={"name": name}))
        forged = pod("forged", annotations={SEEN: "x"})
        await expect_refused(partial(client.create, PODS, forged, {"dryRun": "All"}))
        first, second = PLUGINS
        for name, node, account in (
            *((one, "n1", one) for one in PLUGINS),
            *(("here", "n1", first), ("there", "n2", second)),
        ):
            body = pod(name)
            body["spec"] |= {"nodeName": node, "serviceAccountName": account}
            await expect_let_through(partial(client.create, PODS, body))
        yield client


async def plugin_on_n1(
    admin: KubeClient, plane: ControlPlane, name: str = PLUGINS[0]
) -> KubeClient:
    """A client with the token that Kubernetes gives to the plugin's pod."""
    about = {"apiVersion": "v1", "kind": "Pod", "name": name}
    spec = {"boundObjectRef": about, "audiences": [], "expirationSeconds": 3600}
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    answer = await admin.create(path, {"kind": "TokenRequest", "spec": spec})
    ca = plane.secrets.certificates.ca_file.read_text()
    reading = KubeReading(
        server=plane.url, authorization=f"Bearer {answer['status']['token']}", ca=ca
    )
    return KubeClient(Credentials("the plugin's pod", lambda: reading))


def annotated(key: str, text: str | None) -> Json:
    return {"metadata": {"annotations": {key: text}}}


async def test_a_device_plugin_writes_its_keys_on_pods_of_its_own_node_alone(
    admin: KubeClient, guarded_results: ControlPlane
) -> None:
    here, there = f"{PODS}/here", f"{PODS}/there"
    async with await plugin_on_n1(admin, guarded_results) as plugin:
        await expect_accepted(plugin.merge_patch(here, annotated(SEEN, "yes")))
        for path, change in (
            (there, annotated(SEEN, "yes")),
            (here, annotated(CARDS, "GPU-1")),
            (here, annotated(OF + "main", "0")),
            (here, annotated("sharedgpu/gpu_uuid", "GPU-1")),
        ):
            message = await refused(plugin.merge_patch(path, change))
            assert "only kubeshare-scheduler writes " in message
        body = pod("new", annotations={SEEN: "x"})
        assert SEEN in await refused(plugin.create(PODS, body))


async def test_a_former_scheduler_goes_on_with_pods_that_are_not_ours(
    admin: KubeClient, guarded_results: ControlPlane
) -> None:
    theirs = pod("theirs")
    theirs["spec"]["schedulerName"] = "default-scheduler"
    await admin.create(PODS, theirs)
    namespace, name = FORMER.split("/")
    account = f"system:serviceaccount:{namespace}:{name}"

    async def write(at: str, key: str, user: str = account) -> str:
        """What the API server says of a change by this user; "" if it takes it."""
        groups = "--as-group=system:masters"
        try:
            await kubectl(
                guarded_results, f"--as={user}", groups, "annotate", "pod", at, f"{key}=x",
                "--overwrite", "--dry-run=server",
            )  # fmt: skip
        except AssertionError as error:
            return str(error)
        return ""

    for key in (CARDS, SEEN, f"{OF}main"):
        assert await write("theirs", key) == ""
        assert "only kubeshare-scheduler writes" in await write("here", key)
        other = f"system:serviceaccount:default:{name}"
        assert "only kubeshare-scheduler writes" in await write("theirs", key, other)
    for key in ("sharedgpu/gpu_uuid", "sharedgpu/allocation"):
        assert "only kubeshare-scheduler writes" in await write("theirs", key)


async def test_a_former_device_plugin_goes_on_with_all_pods_of_its_own_node(
    admin: KubeClient, guarded_results: ControlPlane
) -> None:
    """As HAMi's, which says on each pod that the pod has its devices."""
    async with await plugin_on_n1(admin, guarded_results, "former-plugin") as plugin:
        await expect_accepted(plugin.merge_patch(f"{PODS}/here", annotated(SEEN, "yes")))
        for at, key in (("there", SEEN), ("here", CARDS), ("here", "sharedgpu/gpu_uuid")):
            message = await refused(plugin.merge_patch(f"{PODS}/{at}", annotated(key, "x")))
            assert "only kubeshare-scheduler writes " in message


async def test_nobody_else_writes_results_of_an_enabled_dialect(admin: KubeClient) -> None:
    for key in (SEEN, CARDS, OF + "main"):
        assert f"only kubeshare-scheduler writes {key}" in await refused(
            admin.merge_patch(f"{PODS}/here", annotated(key, "x"))
        )
    mine = annotated("example.com/mine", "x")
    await expect_accepted(admin.merge_patch(f"{PODS}/here", mine))
