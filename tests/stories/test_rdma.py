"""Pods that ask for an RDMA device get cards near one."""

import pytest
import yaml

from kubeshare_py.inventory.card_file import synthetic_uuid
from tests.plugins.test_config_files import FOLDER
from tests.stories.conftest import Stage, gpu

_TOPOLOGY = """
        GPU0 GPU1 GPU2 GPU3 NIC0 CPU Affinity
        GPU0  X   PIX  SYS  SYS  {0}  0-23
        GPU1 PIX   X   SYS  SYS  {0}  0-23
        GPU2 SYS  SYS   X   PIX  {1}  24-47
        GPU3 SYS  SYS  PIX   X   {1}  24-47
"""


@pytest.fixture
def nodes() -> str:
    text = "nodes:"
    for node, words in (("n1", ("PIX", "SYS")), ("n2", ("SYS", "PIX"))):
        text += f"""
  - name: {node}
    gpus: [{{model: A100, count: 4, memory: 40GiB}}]
    allocatable: {{cpu: 32, memory: 64Gi, rdma/hca: {4 if node == "n2" else 1}}}
    topology: |{_TOPOLOGY.format(*words)}"""
    return text


async def test_cards_are_near_the_device_that_the_pod_asks_for(empty_stage: Stage) -> None:
    document = yaml.safe_load((FOLDER / "rdma.yaml").read_text())
    profiles = {"profiles": document["profiles"], "inventory": {"intervalSeconds": 0.1}}
    election = {"leaderElection": {"leaderElect": False}}
    async with empty_stage.scheduler(profiles | election):
        await empty_stage.warm_up()
        container = {
            "name": "main",
            "image": "busybox",
            "resources": {"limits": {"rdma/hca": "2"}, "requests": {"rdma/hca": "2"}},
        }
        await empty_stage.create("trains", gpu("2", "2"), containers=[container])
        node, cards = await empty_stage.place("trains")
        assert node == "n2"
        assert {*cards.split(",")} == {synthetic_uuid("n2", at) for at in (2, 3)}
