"""The annotations with a pod's cards, for its containers, its tools and its users.

Keys are KubeShare 2.0's (README and pkg/scheduler of github.com/NTHU-LSALab/KubeShare,
release-2.0), except that lists do not end with a comma. Every placement has them, in whatever
dialect it was requested.
"""

import re
from collections.abc import Iterable

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.request import ContainerRef

PREFIX = "sharedgpu/"

#: Holds the placement itself; the other keys are renderings of it.
ALLOCATION = "sharedgpu/allocation"
GPU_UUID = "sharedgpu/gpu_uuid"
GPU_MODEL = "sharedgpu/gpu_model"
GPU_MEM = "sharedgpu/gpu_mem"
CELL_ID = "sharedgpu/cell_id"
MANAGER_PORT = "sharedgpu/gpu_manager_port"
#: The scheduler's term of leadership, for an admission policy to compare with the Lease.
FENCE = "sharedgpu/fence"

#: On a pod that waits for others to leave: its cards once they have left.
RESERVATION = "sharedgpu/earmark"

#: For isolation back-ends: whole MiB of each card, and MPS' two limits.
MEMORY_MIB = "sharedgpu/gpu_mem_mib"
MPS_THREADS = "sharedgpu/mps_thread_percentage"
MPS_MEMORY = "sharedgpu/mps_memory"

#: What one container has, where containers differ: these names behind `container` or `init` and the
#: container's number.
OF_A_CONTAINER = (GPU_UUID, MEMORY_MIB, MPS_THREADS, MPS_MEMORY)
#: All keys without those for one container each.
KEYS = frozenset(
    {
        ALLOCATION, GPU_UUID, GPU_MODEL, GPU_MEM, CELL_ID, MANAGER_PORT, FENCE,
        MEMORY_MIB, MPS_THREADS, MPS_MEMORY, RESERVATION,
    }
)  # fmt: skip
_NAMES = "|".join(key.removeprefix(PREFIX) for key in OF_A_CONTAINER)
OF_ONE_CONTAINER = re.compile(rf"sharedgpu/(container|init)-[0-9]+[.]({_NAMES})")


def is_result(key: str) -> bool:
    """Whether only the scheduler may write this annotation: a pod must not be created with it."""
    return key.startswith(PREFIX) and (key in KEYS or OF_ONE_CONTAINER.fullmatch(key) is not None)


def key_of(container: ContainerRef, key: str) -> str:
    """The key of one container's part of what this key, one of `OF_A_CONTAINER`, says of a pod."""
    return f"{PREFIX}{container}.{key.removeprefix(PREFIX)}"


def visible_cards(cards: Iterable[CardCharge]) -> str:
    """The cards as containers see them, "" for none."""
    return ",".join([card.uuid for card in cards])


def container_cards(allocation: Allocation) -> dict[str, str]:
    """The keys of single containers with the cards that they see; empty if all see the same."""
    return {
        key_of(part.container, GPU_UUID): visible_cards(part.cards)
        for part in allocation.containers
    }


def result_annotations(allocation: Allocation) -> dict[str, str]:
    """Cards, models and cells (same order), bytes charged in all, and the port if there is one.

    Cells only if a card is in one; others have an empty name between the commas. Empty for a
    placement without cards. Where containers differ, each with a card has its cards in a key of
    its own.
    """
    cards = allocation.cards
    if not cards:
        return {}
    results = {
        GPU_UUID: visible_cards(cards),
        GPU_MODEL: ",".join(card.model for card in cards),
        GPU_MEM: str(allocation.memory_bytes),
        **container_cards(allocation),
    }
    if any(card.cell for card in cards):
        results[CELL_ID] = ",".join(card.cell for card in cards)
    if allocation.port is not None:
        results[MANAGER_PORT] = str(allocation.port)
    return results
