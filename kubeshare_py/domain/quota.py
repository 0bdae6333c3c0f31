"""What a namespace's pods may hold of GPUs, and which resources of kubelet count as GPUs."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from kubeshare_py.domain.cluster_objects import ClusterObject, WatchedKind
from kubeshare_py.domain.remembered import remembered

# What a namespace's pods may hold of GPUs together, as ResourceQuota objects say it.
#
# Kubernetes itself does not enforce these names. They are HAMi's: `limits.nvidia.com/gpumem` and
# `limits.nvidia.com/gpucores`, or as its resources are called.
#
# A quota with scopes is about the pods of its scopes alone, as Kubernetes' own quotas are:
# pkg/quota/v1/evaluator/core/pods.go of github.com/kubernetes/kubernetes.


#: How the keys of a quota begin that limit what containers have; the resource's name follows.
LIMITS = "limits."


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNames:
    """The resources by which quotas limit the pods of a dialect.

    `memory` is counted in units of `unit_bytes`, `cores` in hundredths of a card.
    """

    memory: str
    cores: str
    unit_bytes: int


class PodScopes(Struct, frozen=True, kw_only=True):
    """What scopes of quotas ask about a pod.

    `priority_class` is "" for a pod without one. `terminating`: it has an activeDeadlineSeconds.
    `best_effort` is its QoS class. `crosses_namespaces`: a term of its affinity or anti-affinity
    to other pods names namespaces or selects them.
    """

    priority_class: str = ""
    terminating: bool = False
    best_effort: bool = False
    crosses_namespaces: bool = False


#: Of pods that no quota is about, and of those without anything in particular.
NO_SCOPES = PodScopes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRequirement:
    """One requirement of a quota about its pods. `values` are classes, for In and NotIn."""

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def is_met_by(self, pod: PodScopes) -> bool:
        """Whether the pod is in the scope. None is in a scope that Kubernetes has not for pods."""
        if self.scope == "PriorityClass":
            return self._is_met_by_class(pod.priority_class)
        facts = {
            "Terminating": pod.terminating,
            "NotTerminating": not pod.terminating,
            "BestEffort": pod.best_effort,
            "NotBestEffort": not pod.best_effort,
            "CrossNamespacePodAffinity": pod.crosses_namespaces,
        }
        return facts.get(self.scope, False)

    def _is_met_by_class(self, name: str) -> bool:
        """As a label selector of labels of which a pod without a class has none."""
        match self.operator:
            case "In":
                return bool(name) and name in self.values
            case "NotIn":
                return not name or name not in self.values
            case "Exists":
                return bool(name)
            case "DoesNotExist":
                return not name
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaObject(ClusterObject):
    """A ResourceQuota. `hard_limits` are its limits, (resource, amount), sorted.

    It is about the pods that meet all of its `scopes`.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.RESOURCE_QUOTA
    hard_limits: tuple[tuple[str, int], ...] = ()
    scopes: tuple[ScopeRequirement, ...] = ()

    def is_about(self, pod: PodScopes) -> bool:
        """Whether the pod counts, and is held back."""
        return all(scope.is_met_by(pod) for scope in self.scopes)


# Extended resources whose units are cards or parts of cards that the kubelet gives out.
#
# NVIDIA's device plugin calls cards `nvidia.com/gpu`, time slices of them `nvidia.com/gpu.shared`
# (renameByDefault) and MIG instances `nvidia.com/mig-…`. Its `resources` may rename them, and
# plugins of others have names of their own: https://github.com/NVIDIA/k8s-device-plugin


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
