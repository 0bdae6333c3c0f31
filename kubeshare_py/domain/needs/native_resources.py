"""Extended resources whose units are cards or parts of cards that the kubelet gives out.

NVIDIA's device plugin calls cards `nvidia.com/gpu`, time slices of them `nvidia.com/gpu.shared`
(renameByDefault) and MIG instances `nvidia.com/mig-…`. Its `resources` may rename them, and plugins
of others have names of their own: https://github.com/NVIDIA/k8s-device-plugin
"""

import re
from collections.abc import Iterable

from kubeshare_py.domain.remembered import remembered

#: Whole GPUs, or time slices where the plugin advertises more of them than there are cards.
NATIVE_GPU = "nvidia.com/gpu"
#: Of NVIDIA's plugin besides; `*` at the end stands for any end.
NVIDIA_NAMES = ("nvidia.com/gpu.shared", "nvidia.com/mig-*")
#: Under this name, which no resource can have, a pod is charged its units of all these resources.
UNKNOWN_PARTS = "parts of cards from the kubelet"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61})\*?")
_NamedAmounts = tuple[tuple[str, int], ...]


def name_problem(name: str) -> str:
    """Why this cannot be the name, or the beginning of names, of such a resource; "" if it can."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is no extended resource such as example.com/gpu or example.com/mig-*"
    if name == NATIVE_GPU:
        return f"{NATIVE_GPU} always counts"
    return ""


class NativeResources:
    """NVIDIA's names and `more`, each of which `name_problem` allows."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        names = sorted({*NVIDIA_NAMES, *more})
        self._exact = frozenset(name for name in names if not name.endswith("*"))
        self._beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
        self.charged = remembered(4096)(self._charged)

    def _charged(self, resources: _NamedAmounts) -> _NamedAmounts:
        """What a pod with these amounts is charged besides: nothing, or its units together."""
        units = sum(amount for name, amount in resources if self._counts(name))
        return ((UNKNOWN_PARTS, units),) if units else ()

    def _counts(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._beginnings)


#: NVIDIA's names alone.
NVIDIAS = NativeResources()
