"""A scheduler's machine with one profile, and pods that ask in nano-gpu's dialect."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    BindSlotsFree,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests.events import node_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.testing.values import GIB, a_gpu
from tests.dialects.pods import NANO
from tests.making import a_machine
from tests.manifests.written import pod_fields

DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Gpushare(), NANO)})
CONFIG = Path(__file__).parents[2] / "config"
#: What a card has: units of core, and GiB of memory.
Card = tuple[int, int]


class NanoCluster:
    """Nodes whose cards have so much left; `policy` is a file of config/, by its name."""

    def __init__(self, policy: str = "binpack", **nodes: Sequence[Card]) -> None:
        self.machine = a_machine(yaml.safe_load((CONFIG / f"{policy}.yaml").read_text()))
        found = {
            NodeName(name): tuple(
                a_gpu(f"GPU-{name}-{at}", index=at, memory_bytes=memory * GIB)
                for at, (_, memory) in enumerate(cards)
            )
            for name, cards in nodes.items()
        }
        self.tell(PodsListed((), 0.0))
        self.tell(NodesListed(tuple(map(_node, nodes))))
        self.tell(InventoryRead(tuple(found.items())))
        for name, cards in nodes.items():
            for at, (core, _) in enumerate(cards):
                if core < 100:
                    self._fill(name, at, 100 - core)

    def tell(self, event: Any) -> list[Effect]:
        return self.machine.handle(event, 0.0)

    def decide(self) -> list[Bind]:
        return [one for one in self.tell(BindSlotsFree(64)) if isinstance(one, Bind)]

    def place(self, name: str, *containers: Mapping[str, int]) -> tuple[str, list[str]] | None:
        """The node of a new pod, and what its containers' annotations say; None if it waits."""
        self.tell(PodSeen(pod_of(name, containers)))
        for bind in self.decide():
            found = DIALECTS.results(bind.allocation, bind.decided, 0.0)
            assert not isinstance(found, str)
            bound = pod_of(name, containers, node=bind.node, allocation=bind.allocation)
            self.tell(PodSeen(bound))
            told = [
                text for key, text in sorted(found.items()) if key.rpartition("-")[2][:1] == "c"
            ]
            return bind.node, told
        return None

    def completed(self, name: str) -> None:
        """The pod has ended."""
        self.tell(PodGone(PodUid(f"uid-{name}"), stopped=True))

    def indices(self, *containers: Mapping[str, int]) -> list[str] | None:
        """Only what the annotations of a pod's containers say."""
        placed = self.place(f"p{len(containers)}", *containers)
        return None if placed is None else placed[1]

    def left(self, node: str) -> list[tuple[int, int]]:
        """What is free of each card: units of core, and bytes."""
        columns = self.machine.ledger.columns
        row = columns.row_of[NodeName(node)]
        cards = len(self.machine.ledger.inventory[NodeName(node)])
        return [
            (columns.free_milli.item(row, slot) // 10, columns.free_bytes.item(row, slot))
            for slot in range(cards)
        ]

    def _fill(self, node: str, index: int, core: int) -> None:
        charge = CardCharge(a_gpu(f"GPU-{node}-{index}").uuid, core * 10, 0)
        held = Allocation(token=DecisionToken(f"{node}-{index}"), cards=(charge,))
        self.tell(PodSeen(pod_of(f"{node}-{index}", (), node=node, allocation=held)))


def _node(name: str) -> Node:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    written = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
    fields = msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)
    return node_events(DIALECTS).reduce(fields)


def pod_of(
    name: str,
    containers: Sequence[Mapping[str, int]],
    *,
    node: str = "",
    allocation: Allocation | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A pod whose containers, called c0, c1 and so on, ask for these amounts."""
    written = {ALLOCATION: write_allocation(allocation)} if allocation is not None else {}
    found = [
        {"name": f"c{at}", "resources": {"limits": {key: str(n) for key, n in asked.items()}}}
        for at, asked in enumerate(containers)
    ]
    spec = {
        "schedulerName": "kubeshare-scheduler",
        "nodeName": node,
        "containers": found or [{"name": "c0"}],
    }
    notes = written | dict(annotations or {})
    return to_domain(pod_fields(spec, name=name, uid=f"uid-{name}", annotations=notes), DIALECTS)
