"""GPUs that the kubelet gives out itself: how many idle cards are held back for them.

Of a pod with `nvidia.com/gpu` that no dialect reads, only the kubelet knows which cards it got.
Until the node's agent names them, as many idle cards are held back, but no more than the device
plugin advertises: what pods ask for beyond that, the kubelet refuses.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray

#: Whole GPUs from the vendor's device plugin: the kubelet picks the cards.
NATIVE_GPU = "nvidia.com/gpu"
#: The beginning of the names of MIG instances by profile, from the same plugin.
MIG = "nvidia.com/mig-"

Resources = tuple[tuple[str, int], ...]


def native_gpus(resources: Resources) -> int:
    """The number of whole GPUs that are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)


def native_instances(resources: Resources) -> int:
    """The number of MIG instances that are requested of the device plugin."""
    return sum(amount for name, amount in resources if name.startswith(MIG))


def is_native(name: str) -> bool:
    """Whether a resource is given out in whole cards or MIG instances by the device plugin."""
    return name == NATIVE_GPU or name.startswith(MIG)


class NativeGpus(NamedTuple):
    """How many of a node's GPUs native pods hold: of `unknown` cards, and on `picked` ones."""

    unknown: int = 0
    picked: int = 0

    def plus(self, other: "NativeGpus", sign: int) -> "NativeGpus":
        """The sum (sign 1) or difference (-1)."""
        return NativeGpus(self.unknown + sign * other.unknown, self.picked + sign * other.picked)


NONE = NativeGpus()


def to_hold_back(columns: Columns, row: int, native: NativeGpus) -> int:
    """How many idle cards of a row are held back."""
    unknown, picked = native
    column = columns.resources.get(NATIVE_GPU)
    if not unknown or column is None:
        return unknown
    advertised = columns.allocatable.item(row, column)
    # A plugin that is gone advertises nothing, and its pods run on.
    return min(unknown, max(advertised - picked, 0)) if advertised > 0 else unknown


def all_to_hold_back(columns: Columns, index: IntArray, native: IntArray) -> IntArray:
    """`to_hold_back` of many rows, (k,); `native` has unknown and picked GPUs, (k, 2)."""
    unknown, picked = native[:, 0], native[:, 1]
    column = columns.resources.get(NATIVE_GPU)
    if column is None:
        return unknown
    advertised = columns.allocatable[index, column]
    most = np.where(advertised > 0, np.maximum(advertised - picked, 0), unknown)
    return np.minimum(unknown, most)


def as_array(native_on: Callable[[int], NativeGpus], rows: IntArray) -> IntArray:
    """Of these rows, (k,), their unknown and picked GPUs, (k, 2) int64."""
    found = np.zeros((len(rows), 2), np.int64)
    for position, row in enumerate(rows.tolist()):
        found[position] = native_on(row)
    return found
