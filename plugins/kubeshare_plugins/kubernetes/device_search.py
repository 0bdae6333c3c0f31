"""Devices for the claims of pods, node by node: what DynamicResources asks the allocator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.node_affinity import required_affinity
from kubeshare_py.devices.allocation_result import allocation_of
from kubeshare_py.devices.allocator import Chosen, Impossible, InUse, allocate, problem_of
from kubeshare_py.devices.device_pools import NodeDevices, PooledDevice
from kubeshare_py.devices.device_verdicts import DeviceVerdicts
from kubeshare_py.domain.devices.resource_claim import (
    ClaimAllocation,
    DeviceClass,
    ResourceClaim,
)
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.device_claims import DeviceClaims
from kubeshare_py.plugin import HELD_BACK, GpuUuid, NodeTerm, Rows, Shape


@dataclass(frozen=True, slots=True)
class FoundClaims:
    """A pod's claims, and those of them that are not allocated."""

    claims: tuple[ResourceClaim, ...]
    unallocated: tuple[ResourceClaim, ...]


class DeviceSearch:
    """Devices for the claims of one pod on each of some rows.

    Pods that are placed there but not bound, such as other members of a gang, get theirs in the
    same search, so that every one of them finds the same devices for all.
    """

    def __init__(
        self, claims: DeviceClaims, found: FoundClaims, rows: Rows, verdicts: DeviceVerdicts
    ) -> None:
        self._claims, self._found, self._rows = claims, found, rows
        self._verdicts = verdicts
        self._classes = classes_in(rows)
        self._pools, self._in_use = rows.device_pools, rows.devices_in_use
        self._names, self._uuids = rows.names, rows.uuids
        self._busy = (rows.tenants > 0) | (rows.flags & HELD_BACK > 0)
        selectors = dict.fromkeys(map(tuple, self._pools.selectors()))
        self._terms = {terms: terms_hold(terms, rows) for terms in selectors}
        #: Pods whose claims are chosen but not written, by row.
        self._pending: dict[int, list[DeviceClaims]] = {}
        for row, other in rows.device_claims():
            if other.uid != claims.uid:
                self._pending.setdefault(row, []).append(other)

    def reason(self, position: int) -> str:
        """Why the claims cannot be allocated on a row; "" if they can."""
        chosen = self._chosen(position)
        return chosen.reason if isinstance(chosen, Impossible) else ""

    def allocations(self, position: int) -> Mapping[ObjectKey, ClaimAllocation] | str:
        """The allocation of each claim of the pod on a row, or why there is none."""
        chosen = self._chosen(position)
        if isinstance(chosen, Impossible):
            return chosen.reason
        return {
            one.key: allocation_of(one, devices, self._classes)
            for one, devices in zip(self._together(position), chosen, strict=True)
            if one in self._found.unallocated
        }

    def _chosen(self, position: int) -> Sequence[Chosen] | Impossible:
        elsewhere = self._pending_elsewhere(position)
        for one in self._found.unallocated:
            if any(one.key in other.objects() for other in elsewhere):
                reason = f"resource claim {one.key} is in the process of being allocated"
                return Impossible(reason)
        together = self._together(position)
        in_use = self._judge(position, bool(elsewhere))
        return allocate(together, self._classes, self._devices(position), self._verdicts, in_use)

    def _together(self, position: int) -> list[ResourceClaim]:
        """All claims that are to be allocated on a row, in the order of pods' names."""
        known = self._rows.objects(ResourceClaim)
        pods = [*self._pending.get(int(self._rows.index[position]), ()), self._claims]
        found: dict[ObjectKey, ResourceClaim] = {}
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.pod, pod.uid)):
            for key in pod.objects():
                one = known.get(key)
                if one is not None and one.allocation is None:
                    found[key] = one
        return [one for one in found.values() if not problem_of(one, self._classes)]

    def _pending_elsewhere(self, position: int) -> list[DeviceClaims]:
        row = int(self._rows.index[position])
        known = self._rows.objects(ResourceClaim)
        return [
            pod
            for at, pods in self._pending.items()
            for pod in pods
            if at != row
            and any(key in known and known[key].allocation is None for key in pod.objects())
        ]

    def _devices(self, position: int) -> NodeDevices:
        name = self._names[position]
        assert name is not None
        return self._pools.on(name, lambda terms: bool(self._terms[tuple(terms)][position]))

    def _judge(self, position: int, is_pending: bool) -> InUse:
        """Why a device is not free for this row's claims."""
        busy: set[GpuUuid] = {
            uuid
            for uuid, held in zip(
                self._uuids[position], self._busy[position].tolist(), strict=False
            )
            if held
        }

        def in_use(one: PooledDevice) -> str:
            if one.key in self._in_use:
                return "in use"
            if not busy.isdisjoint(one.device.cards()):
                return "cards that pods hold"
            nodes = one.slice.nodes_of(one.device)
            if is_pending and (nodes is None or nodes.name is None):
                return "being allocated"
            return ""

        return in_use


def terms_hold(terms: tuple[NodeTerm, ...], rows: Rows) -> NDArray[np.bool_]:
    """Which rows satisfy one of these terms, (k,) bool."""
    fits = required_affinity(Shape(terms=terms))
    assert fits is not None
    return fits(rows)


def classes_in(rows: Rows) -> Mapping[str, DeviceClass]:
    """The device classes by name."""
    return {key.name: one for key, one in rows.objects(DeviceClass).items()}
