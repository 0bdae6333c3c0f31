"""The annotations with a pod's cards, for its containers, its tools and its users.

Keys are KubeShare 2.0's (README and pkg/scheduler of github.com/NTHU-LSALab/KubeShare,
release-2.0), except that lists do not end with a comma. Every placement has them, in whatever
dialect it was requested.
"""

import re

from kubeshare_py.domain.allocation import Allocation

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

#: All keys without those for one container each, which have `container` or `init` and its number.
KEYS = frozenset(
    {
        ALLOCATION, GPU_UUID, GPU_MODEL, GPU_MEM, CELL_ID, MANAGER_PORT, FENCE,
        MEMORY_MIB, MPS_THREADS, MPS_MEMORY, RESERVATION,
    }
)  # fmt: skip
OF_ONE_CONTAINER = re.compile(r"sharedgpu/(container|init)-[0-9]+\.gpu_uuid")


def is_result(key: str) -> bool:
    """Whether only the scheduler may write this annotation: a pod must not be created with it."""
    return key.startswith("sharedgpu/") and (
        key in KEYS or OF_ONE_CONTAINER.fullmatch(key) is not None
    )


def visible_cards(allocation: Allocation) -> str:
    """The cards as the containers see them, "" for none."""
    return ",".join(card.uuid for card in allocation.cards)


def result_annotations(allocation: Allocation) -> dict[str, str]:
    """Cards, models and cells (same order), bytes charged in all, and the port if there is one.

    Cells only if a card is in one; others have an empty name between the commas. Empty for a
    placement without cards.
    """
    cards = allocation.cards
    if not cards:
        return {}
    results = {
        GPU_UUID: visible_cards(allocation),
        GPU_MODEL: ",".join(card.model for card in cards),
        GPU_MEM: str(allocation.memory_bytes),
    }
    if any(card.cell for card in cards):
        results[CELL_ID] = ",".join(card.cell for card in cards)
    if allocation.port is not None:
        results[MANAGER_PORT] = str(allocation.port)
    return results
