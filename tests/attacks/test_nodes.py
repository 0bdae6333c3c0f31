"""What the token of a kubelet or of a collector can do, and what a node can say of its cards."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials, load
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from tests.attacks.attack import (
    LEASE,
    STATE,
    Attack,
    Json,
    expect_eventually,
    gpu_pod,
    pods_of,
    refusal,
)
from tests.attacks.attacked_cluster import ATTACKER
from tests.controlplane.helm import NAMESPACE

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

SHARE = {"gpu_request": "0.5", "gpu_limit": "1.0"}
COLLECTOR = "kubeshare-collector"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


@asynccontextmanager
async def kubelet(attack: Attack, node: str) -> AsyncIterator[KubeClient]:
    """A client with the certificate of a node's kubelet; the Node authorizer judges."""
    path = attack.attacked_cluster.kubeconfig(f"system:node:{node}", "system:nodes")
    async with KubeClient(load(str(path))) as client:
        yield client


@asynccontextmanager
async def collector(attack: Attack, node: str) -> AsyncIterator[KubeClient]:
    """A client with the token of the collector's pod on a node."""
    body = gpu_pod("collector", {}, nodeName=node, serviceAccountName=COLLECTOR)
    await attack.admin.create(pods_of(NAMESPACE), body | {"kind": "Pod"})
    about = {"apiVersion": "v1", "kind": "Pod", "name": "collector"}
    spec = {"boundObjectRef": about, "audiences": [], "expirationSeconds": 3600}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{COLLECTOR}/token"
    answer = await attack.admin.create(path, {"kind": "TokenRequest", "spec": spec})
    plane = attack.attacked_cluster.plane
    ca = plane.secrets.certificates.ca_file.read_text()
    token = f"Bearer {answer['status']['token']}"
    reading = KubeReading(server=plane.url, authorization=token, ca=ca)
    async with KubeClient(Credentials("a collector's pod", lambda: reading)) as client:
        try:
            yield client
        finally:
            await attack.admin.delete(f"{pods_of(NAMESPACE)}/collector", grace_period_s=0)


@asynccontextmanager
async def saying(attack: Attack, node: str, text: str) -> AsyncIterator[None]:
    """A node's collector writes this about its cards; in the end what is true again."""
    path = f"/api/v1/nodes/{node}"
    cards = next(one.cards for one in attack.attacked_cluster.nodes if one.name == node)
    async with collector(attack, node) as client:
        await client.merge_patch(path, {"metadata": {"annotations": {ANNOTATION: text}}})
        try:
            yield
        finally:
            right = {"metadata": {"annotations": {ANNOTATION: write_cards(cards)}}}
            await client.merge_patch(path, right)
            await expect_eventually(
                lambda: cards_of(attack, node), lambda found: len(found) == len(cards), 20
            )


async def cards_of(attack: Attack, node: str) -> Json:
    """The cards of a node that the scheduler counts, by uuid."""
    view = await attack.admin.get(f"{STATE}/gpus")
    nodes = [one for one in view["nodes"] if one["name"] == node]
    return {card["uuid"]: card for one in nodes for card in one["cards"]}


async def test_a_kubelet_gives_no_pod_another_card(attack: Attack) -> None:
    await attack.create(gpu_pod("p", SHARE))
    placed = await attack.expect_bound("p")
    node = placed["spec"]["nodeName"]
    path = f"{pods_of(ATTACKER)}/p"
    other = {"metadata": {"annotations": {"sharedgpu/gpu_uuid": "GPU-of-somebody"}}}
    async with kubelet(attack, node) as client:
        await client.merge_patch(f"{path}/status", {"status": {"message": "mine"}})
        error = await refusal(client.merge_patch(f"{path}/status", other))
        assert "only kubeshare-scheduler writes" in error.message
        for asked in (
            client.merge_patch(path, other),
            client.merge_patch(LEASE, {"spec": {"holderIdentity": node}}),
            client.create(f"{path}/binding", {"target": {"kind": "Node", "name": "n1"}}),
            client.get(f"{STATE}/gpus"),
        ):
            assert (await refusal(asked)).status == HTTPStatus.FORBIDDEN
    async with kubelet(attack, "n1" if node != "n1" else "n2") as client:
        error = await refusal(client.merge_patch(f"{path}/status", {"status": {"message": "x"}}))
        assert error.status == HTTPStatus.FORBIDDEN
    assert (await attack.pod("p"))["metadata"]["annotations"] == placed["metadata"]["annotations"]


async def test_a_collector_writes_one_annotation_of_its_own_node(attack: Attack) -> None:
    async with collector(attack, "n1") as client:
        mine, other = "/api/v1/nodes/n1", "/api/v1/nodes/n2"
        text: Json = {"metadata": {"annotations": {ANNOTATION: "[]"}}}
        for path, change in (
            (other, text),
            (mine, {"spec": {"unschedulable": True}}),
            (mine, {"metadata": {"labels": {"a": "b"}}}),
            (mine, {"metadata": {"annotations": {"a": "b"}}}),
            (mine, {"metadata": {"finalizers": ["a/b"]}}),
            (f"{mine}/status", {"status": {"phase": "x"}}),
            (LEASE, {"spec": {"holderIdentity": "n1"}}),
        ):
            error = await refusal(client.merge_patch(path, change))
            assert error.status == HTTPStatus.FORBIDDEN
        assert (await refusal(client.get(pods_of(ATTACKER)))).status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("uuid", ["all", "0", "none", "void", "", "GPU-1,GPU-2", "../x", "a\nb"])
async def test_a_card_that_is_a_selector_is_none(attack: Attack, uuid: str) -> None:
    cards = json.loads(write_cards(attack.attacked_cluster.nodes[0].cards))
    cards[0]["uuid"] = uuid
    async with saying(attack, "n1", json.dumps(cards)):
        found = await expect_eventually(lambda: cards_of(attack, "n1"), without(uuid), 20)
        assert len(found) >= len(cards) - 1
        await attack.expect_victim_bound()


def without(uuid: str) -> Callable[[Json], bool]:
    return lambda found: uuid not in found and bool(found)


async def test_no_text_of_a_node_is_too_odd(attack: Attack) -> None:
    card = json.loads(write_cards(attack.attacked_cluster.nodes[0].cards))[0]
    many = [{**card, "uuid": f"GPU-{index}", "index": index} for index in range(3000)]
    huge = [{**card, "memory": 2**80}, {**card, "memory": -1}, {**card, "index": 10**30}]
    for text in ("{", "[" * 100_000, "null", json.dumps(many)[:250_000], json.dumps(huge)):
        async with saying(attack, "n1", text):
            await attack.expect_victim_bound()


async def test_another_nodes_card_gives_it_to_no_two_pods(attack: Attack) -> None:
    """Pods hold cards of n1; n2 says that it has them. They are still given once."""
    bodies = [gpu_pod(f"p{one}", {"gpu_request": "1.0", "gpu_limit": "1.0"}) for one in range(8)]
    await attack.flood(bodies)
    for body in bodies:
        await attack.expect_bound(body["metadata"]["name"])
    own = attack.attacked_cluster.nodes[1].cards
    async with saying(attack, "n2", write_cards((*own, *attack.attacked_cluster.nodes[0].cards))):
        more = [gpu_pod(f"q{one}", {"gpu_request": "1.0", "gpu_limit": "1.0"}) for one in range(12)]
        await attack.flood(more)
        for body in more:
            name = body["metadata"]["name"]
            await attack.expect_eventually(
                name, ATTACKER, lambda pod: "conditions" in pod["status"]
            )
        await attack.expect_no_card_given_twice()
        placed = [one for one in await attack.pods() if "nodeName" in one["spec"]]
        given = [one["metadata"]["annotations"]["sharedgpu/gpu_uuid"] for one in placed]
        assert len(given) == len({*given}) <= 16
    await attack.clean()
