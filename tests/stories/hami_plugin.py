"""A cluster in which HAMi's device plugin has registered cards, as its scheduler finds it."""

from collections.abc import Iterable

from kubeshare_py.dialects.hami.annotations import MIB, RegisteredCard, write_json, write_records
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.edges.kube.client import KubeClient
from tests.stories.conftest import Json, Stage
from tests.stories.rights import allow

REGISTER, SEED_REGISTER = "hami.io/node-nvidia-register", "4pd.io/node-nvidia-register"
HANDSHAKE, SEED_HANDSHAKE = "hami.io/node-handshake", "4pd.io/node-handshake"
GPU = "nvidia.com/gpu"
SETTINGS: Json = {"inventory": {"source": "hami", "intervalSeconds": 0.1}}
#: Two nodes whose kubelets advertise what the plugin gave them.
CLUSTER = """
nodes:
  - name: "n{n}"
    count: 2
    allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 20}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
"""
_ROLE = "kubeshare-scheduler-device-plugins"


def cards(stage: Stage, node: str) -> list[RegisteredCard]:
    """The node's cards as the plugin registers them."""
    [found] = [one for one in stage.nodes if one.name == node]
    return registered(found.cards)


def registered(found: Iterable[Gpu]) -> list[RegisteredCard]:
    """Cards as the plugin registers them: shared by ten each."""
    return [
        RegisteredCard(
            uuid=card.uuid, index=card.index, count=10, memory_mib=card.memory_bytes // MIB,
            cores=100, type=f"NVIDIA {card.model}", mode="hami-core", health=True,
        )
        for card in found
    ]  # fmt: skip


async def annotate(stage: Stage, node: str, **annotations: str | None) -> None:
    """Write annotations of a Node, or remove them."""
    await stage.patch_node(node, {"metadata": {"annotations": annotations}})


async def register(stage: Stage, node: str, found: list[RegisteredCard] | str | None) -> None:
    """Register cards as HAMi's plugin does it; a text as it is, None removes the annotation."""
    text = write_json(found) if isinstance(found, list) else found
    await annotate(stage, node, **{REGISTER: text})


async def register_as_seed(stage: Stage, node: str, found: list[RegisteredCard], at: str) -> None:
    """Register cards as the ancestor's plugin does it, which reports each time."""
    texts = {SEED_REGISTER: write_records(found, as_seed=True), SEED_HANDSHAKE: f"Reported {at}"}
    await annotate(stage, node, **texts)


async def offer(stage: Stage, node: str, amount: int) -> None:
    """Let the kubelet advertise so many of the plugin's devices."""
    body = {"status": {"allocatable": {GPU: str(amount)}, "capacity": {GPU: str(amount)}}}
    await stage.client.merge_patch(f"/api/v1/nodes/{node}/status", body)


async def allow_node_patches(client: KubeClient) -> None:
    """Give the scheduler the right that the chart gives it with this source."""
    await allow(client, _ROLE, {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]})
