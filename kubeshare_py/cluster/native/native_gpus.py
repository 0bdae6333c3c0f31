"""GPUs that the kubelet gives out itself: how many idle cards are held back for them.

Of a pod with `nvidia.com/gpu` that no dialect reads, only the kubelet knows which cards it got.
Until the node's agent names them, as many idle cards are held back, but no more than the device
plugin advertises: what pods ask for beyond that, the kubelet refuses.

Units of other names, such as `nvidia.com/gpu.shared`, may be parts of one card, or each of another
one. As many idle cards are held back as there are units, which is no over-commitment as long as one
card is without pods of ours.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.domain.needs.native_resources import NATIVE_GPU, UNKNOWN_PARTS

Resources = tuple[tuple[str, int], ...]


def native_gpus(resources: Resources) -> int:
    """The number of whole GPUs that are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)


def native_devices(resources: Resources) -> int:
    """The number of devices that a pod can have of device plugins, whatever these are called.

    The amounts of all extended resources; of a pod that lingers only what it is charged.
    """
    named = sum(amount for name, amount in resources if "/" in name)
    return max(named, sum(amount for name, amount in resources if name == UNKNOWN_PARTS))


def is_native(name: str) -> bool:
    """Whether a pod holds cards by this resource, as long as its containers may run."""
    return name in (NATIVE_GPU, UNKNOWN_PARTS)


class NativeGpus(NamedTuple):
    """How many of a node's GPUs native pods hold.

    Of `unknown` cards, on `picked` ones, and `parts` that may be of the same unknown cards.
    """

    unknown: int = 0
    picked: int = 0
    parts: int = 0

    def plus(self, other: "NativeGpus", sign: int) -> "NativeGpus":
        """The sum (sign 1) or difference (-1)."""
        return NativeGpus(
            self.unknown + sign * other.unknown,
            self.picked + sign * other.picked,
            self.parts + sign * other.parts,
        )

    @property
    def on_unknown_cards(self) -> int:
        """The units whose cards are not known."""
        return self.unknown + self.parts


NONE = NativeGpus()


def native_of(resources: Resources) -> NativeGpus:
    """What a pod with these resources holds of unknown cards."""
    unknown = parts = 0
    for name, amount in resources:
        if name == NATIVE_GPU:
            unknown = amount
        elif name == UNKNOWN_PARTS:
            parts = amount
    return NativeGpus(unknown, 0, parts) if unknown or parts else NONE


def to_hold_back(columns: Columns, row: int, native: NativeGpus) -> int:
    """How many idle cards of a row are held back."""
    parts = min(native.parts, columns.gpu_count.item(row)) if native.parts else 0
    return _whole(columns, row, native) + parts


def least_cards(columns: Columns, row: int, native: NativeGpus) -> int:
    """The fewest cards of a row that can hold these GPUs, whatever the kubelet chose."""
    column, whole, parts = columns.resources.get(NATIVE_GPU), native.unknown, native.parts
    advertised = 0 if column is None else columns.allocatable.item(row, column)
    if advertised > columns.gpu_count.item(row):  # time slices that were not renamed
        whole, parts = 0, parts + whole
    return _whole(columns, row, NativeGpus(whole, native.picked)) + (parts > 0)


def _whole(columns: Columns, row: int, native: NativeGpus) -> int:
    unknown = native.unknown
    column = columns.resources.get(NATIVE_GPU)
    if not unknown or column is None:
        return unknown
    advertised = columns.allocatable.item(row, column)
    # A plugin that is gone advertises nothing, and its pods run on.
    return min(unknown, max(advertised - native.picked, 0)) if advertised > 0 else unknown


def all_to_hold_back(columns: Columns, index: IntArray, native: IntArray) -> IntArray:
    """`to_hold_back` of many rows, (k,); `native` has the three counts of `NativeGpus`, (k, 3)."""
    whole, picked, parts = native[:, 0], native[:, 1], native[:, 2]
    column = columns.resources.get(NATIVE_GPU)
    if column is not None:
        advertised = columns.allocatable[index, column]
        most = np.where(advertised > 0, np.maximum(advertised - picked, 0), whole)
        whole = np.minimum(whole, most)
    held: IntArray = whole + np.minimum(parts, columns.gpu_count[index])
    return held


def as_array(native_on: Callable[[int], NativeGpus], rows: IntArray) -> IntArray:
    """Of these rows, (k,), the three counts of `NativeGpus`, (k, 3) int64."""
    found = np.zeros((len(rows), len(NONE)), np.int64)
    for position, row in enumerate(rows.tolist()):
        found[position] = native_on(row)
    return found
