"""Messages of kubelet's services: the checked-in modules, and the size of long lists."""

from pathlib import Path

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.kubelet.plugin_server import encoded
from kubeshare_py.node_agent.devices import KNOWN, MigStrategy, device_lists, message_bytes
from tests.kubelet.generated import WIRE, generate


def test_the_modules_are_those_of_the_proto_files(tmp_path: Path) -> None:
    made = {path.name: path.read_text() for path in generate(tmp_path)}
    assert made == {path.name: path.read_text() for path in WIRE.glob("*_pb2.py*")}
    assert len(made) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_size_of_a_list_is_known_before_it_is_encoded(name: str) -> None:
    cards = [
        Gpu(
            uuid=GpuUuid(f"GPU-{index}"),
            index=index,
            model="x",
            memory_bytes=((index * 1371) % 12000 + 1) << 20,
            healthy=index % 3 > 0,
        )
        for index in range(12)
    ]
    listed = device_lists([KNOWN[name]], cards, MigStrategy.NONE)[name]
    assert len(encoded(listed)) == message_bytes(listed)
