"""KubeShare 2.0's labels as a dialect, and what pods hold that KubeShare 2.0 itself placed."""

from collections.abc import Mapping

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.card_visibility import CardVisibility, card_visibility
from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, PodAsk, Words
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.dialects.results import CELL_ID, GPU_MEM, GPU_MODEL, GPU_UUID, MANAGER_PORT
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.quantity import CARD_NAME, CARDS_OF_NODE, HELD_BYTES
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

# What a pod holds that KubeShare 2.0 placed, by the annotations that it wrote.
#
# KubeShare creates the pod anew, with its node, its variables and these annotations (pkg/scheduler/
# pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0). A share has one card; whole cards are in
# lists that end with a comma, and so is one cell after a restart of KubeShare. The share itself is
# in the labels only, and memory that no label names was computed: `sharedgpu/gpu_mem` has it.


_LAST_PORT = 65535
_MEMORY_RULE = "must be a whole number of bytes"


def placed_by_kubeshare(
    annotations: Mapping[str, str], asked: GpuRequest | InvalidRequest | None
) -> Allocation | str | None:
    """The cards that these annotations name, with what the labels ask for of each.

    None if they name none. A sentence if they name too much, or memory that is no number. Whole
    cards are held alone, and so is each card of a pod whose labels cannot be read: what it holds of
    them is then not known.
    """
    uuids = list(dict.fromkeys(filter(None, _listed(annotations, GPU_UUID))))
    if not uuids:
        return None
    if len(uuids) > CARDS_OF_NODE.most or not all(CARD_NAME.allows(len(one)) for one in uuids):
        return f"{GPU_UUID}: names too many GPUs, or one with too long a name"
    text = annotations.get(GPU_MEM, "0")
    memory = integer(text)
    if memory is None or not HELD_BYTES.allows(memory):
        return f"{GPU_MEM}: {_MEMORY_RULE}, not {text[: CARD_NAME.most]!r}"
    claim = asked.claims[0].claim if isinstance(asked, GpuRequest) else None
    alone = claim is None or claim.exclusive
    models, cells = _listed(annotations, GPU_MODEL), _listed(annotations, CELL_ID)
    if len(set(filter(None, models))) > 1:
        memory = 0  # the sum of unequal cards: each is held wholly anyway
    return Allocation(
        token=DecisionToken(""),
        cards=tuple(
            CardCharge(
                GpuUuid(uuid),
                WHOLE_MILLI if claim is None or alone else claim.milli,
                memory // len(uuids),
                _at(models, index),
                _at(cells, index),
                exclusive=alone,
            )
            for index, uuid in enumerate(uuids)
        ),
        port=_port(annotations.get(MANAGER_PORT, "")),
    )


def _listed(annotations: Mapping[str, str], key: str) -> list[str]:
    return annotations.get(key, "").split(",")


def _at(names: list[str], index: int) -> str:
    name = names[index] if index < len(names) else ""
    return name if CARD_NAME.allows(len(name)) else ""


def _port(text: str) -> int | None:
    port = integer(text)
    return port if port is not None and 0 < port <= _LAST_PORT else None


# KubeShare 2.0's labels, as a dialect.


class SharedGpu(Dialect):
    """Labels `sharedgpu/gpu_*`. Results are those of every dialect (`results`)."""

    name = sharedgpu.DIALECT
    owns = OwnedKeys(
        labels=frozenset(
            {
                sharedgpu.REQUEST,
                sharedgpu.LIMIT,
                sharedgpu.MEMORY,
                sharedgpu.MODEL,
                sharedgpu.NUMA_BIND,
                sharedgpu.EXCLUSIVE,
                *sharedgpu.MODEL_KEYS,
            }
        ),
        annotations=frozenset(sharedgpu.MODEL_KEYS),
    )

    # KubeShare 2.0 had its daemons, and so its cells, on nodes with this label.
    node_rules = (NodeRule("SharedGPU", ("true",)),)

    words = Words(
        title="KubeShare",
        documentation="https://github.com/NTHU-LSALab/KubeShare",
    )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `sharedgpu.read`."""
        return sharedgpu.read(pod.labels, pod.annotations, pod.guarantee, pod.grouped)

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """What KubeShare 2.0 gave the pod; see `placed_by_kubeshare`."""
        return placed_by_kubeshare(pod.annotations, self.read(pod)) if pod.labels else None

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """By the labels as written: the admission policies decide by the same patterns."""
        return card_visibility(pod.labels)


SHAREDGPU = SharedGpu()
