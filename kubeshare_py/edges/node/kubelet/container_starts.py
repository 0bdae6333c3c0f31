"""What happens before a container with devices starts."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.edges.node.hami_core.hami_folder import INIT, HamiFolder, NoLibrary
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods, PodResources
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused, KubeletUnreachable
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.edges.process import decision_log
from kubeshare_py.isolation.containers import VISIBLE_DEVICES, VOID
from kubeshare_py.node_agent.allocation import (
    AllocatedDevices,
    CardsUnknown,
    ContainerDevices,
    ContainerEdits,
    ContainerSpec,
    DevicePod,
    Given,
    HostMount,
    NoOwner,
    WrittenClaim,
    free_cards,
    held_by,
    owners_of,
    placed_cards,
    restored,
    still_given,
    stored,
    with_init_containers,
)
from kubeshare_py.node_agent.devices import (
    DeviceList,
    PluginResource,
    Unplaced,
    is_own,
    not_offered,
)
from kubeshare_py.node_agent.hami_core import HamiContainer, edits, is_held, limit_of
from kubeshare_py.node_agent.tenants import AgentState
from kubeshare_py.node_agent.withheld import device_uuids

# Holds containers to their shares by HAMi-core, at each of their starts.


class HamiLimits:
    """What containers get of the library in `folder`; None on a node without it."""

    def __init__(self, folder: HamiFolder | None = None) -> None:
        self._folder = folder

    def of(
        self,
        pod: DevicePod,
        container: str,
        charges: Sequence[CardCharge],
        cards: Sequence[Gpu],
        claim: str,
    ) -> ContainerEdits:
        """What a container that starts with these cards gets; nothing with another back-end.

        `claim` names what it gets, the same at each start. Raises DevicesRefused, so that no
        container starts without its limits, and OSError.
        """
        if pod.allocation is None or not is_held(pod.allocation):
            return ContainerEdits()
        if self._folder is None:
            raise DevicesRefused(f"{pod.key} needs HAMi-core, which this node's agent does not use")
        spec = pod.specs.get(container, ContainerSpec())
        found = HamiContainer(
            charges=tuple(charges),
            limit_milli=limit_of(pod.allocation, pod.containers.get(container)),
            variables=spec.variables,
            amounts=spec.amounts,
        )
        try:
            folder = f"{INIT}{container}" if spec.runs_first else container
            files = self._folder.of_container(pod.uid, folder, claim)
        except NoLibrary as error:
            raise DevicesRefused(f"{pod.key} needs HAMi-core: {error}") from error
        return edits(found, self._folder.settings, files, cards)


# What happens before a container with devices starts: its cards are found, and written down.
#
# kubelet asks at each start of a container, with the same devices each time. Its checkpoint says
# whose they are, and what was promised for them (docs/decisions/0025, 0027).


# Files of the device plugins: what they gave, and a CDI specification for each claim.
#
# A container runtime reads the specifications when it makes a container:
# https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md Each file is written
# beside its place and moved there, so that readers find it whole or not at all.


KIND = "kubeshare.io/claim"
_PREFIX, _SUFFIX = "kubeshare.io-claim-", ".json"
#: Understood by containerd from 1.7 on.
_CDI_VERSION = "0.5.0"


def cdi_device(claim: str) -> str:
    """The qualified name of a claim."""
    return f"{KIND}={claim}"


def claim_of(device: str) -> str:
    """The claim of a qualified name, "" if it is of another kind."""
    kind, _, claim = device.partition("=")
    return claim if kind == KIND else ""


class GivenFiles:
    """The files below the node's `root`. All methods raise OSError where a file cannot be used."""

    def __init__(self, root: Path) -> None:
        self.given_file = root / "var/lib/kubeshare/device-plugins.json"
        self.claims = root / "var/run/cdi"

    def load(self) -> Given:
        """What was given before; nothing if the file is missing or cannot be read."""
        try:
            return restored(self.given_file.read_bytes())
        except FileNotFoundError:
            return Given()
        except ValueError as error:
            decision_log.warn("device-plugins", file=self.given_file.name, message=str(error))
            return Given()

    def store(self, given: Given) -> None:
        """Keep what is given, also through a loss of power."""
        _put(self.given_file, stored(given), synchronised=True)

    def write(self, claim: str, given: ContainerEdits) -> None:
        """Write the specification of a claim."""
        edits: dict[str, object] = {
            "env": [f"{name}={value}" for name, value in given.variables.items()]
        }
        if given.mounts:
            edits["mounts"] = [_mount(one) for one in given.mounts]
        document = {
            "cdiVersion": _CDI_VERSION,
            "kind": KIND,
            "devices": [{"name": claim, "containerEdits": edits}],
        }
        _put(self._path(claim), msgspec.json.encode(document), synchronised=False)

    def tidy(self, given: Given) -> None:
        """Remove the specifications of claims that are not given."""
        kept = {self._path(one.name) for one in given.claims}
        for path in self.claims.glob(f"{_PREFIX}*"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, claim: str) -> Path:
        return self.claims / f"{_PREFIX}{claim}{_SUFFIX}"


def _mount(one: HostMount) -> dict[str, object]:
    options = ["rbind", "nosuid", "nodev", "ro" if one.read_only else "rw"]
    return {"hostPath": one.host, "containerPath": one.container, "options": options}


def _put(path: Path, content: bytes, *, synchronised: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Runtimes read files that end in .json or .yaml.
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        if synchronised:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)


# kubelet's checkpoint of its device manager: every container with devices, init ones included.
#
#     {"Data":{"PodDeviceEntries":[{"PodUID":"8d1…","ContainerName":"a","ResourceName":"x.y/gpu",
#      "DeviceIDs":{"-1":["0-0"]},"AllocResp":"…"}],"RegisteredDevices":{…}},"Checksum":1}
#
# `AllocResp` is a ContainerAllocateResponse in base64. kubelet writes the file anew at each
# allocation, before it admits the pod, and moves it to its place, so that it is whole
# (pkg/kubelet/cm/devicemanager/checkpoint; in this form since Kubernetes 1.20).


FILE = "kubelet_internal_checkpoint"


class _Entry(msgspec.Struct, frozen=True, gc=False):
    uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    devices: Mapping[str, tuple[str, ...]] | None = msgspec.field(name="DeviceIDs", default=None)
    answer: bytes | None = msgspec.field(name="AllocResp", default=None)


class _Data(msgspec.Struct, frozen=True, gc=False):
    entries: tuple[_Entry, ...] | None = msgspec.field(name="PodDeviceEntries", default=None)


class _Checkpoint(msgspec.Struct, frozen=True, gc=False):
    data: _Data = msgspec.field(name="Data")


def allocated_devices(folder: Path) -> list[AllocatedDevices]:
    """What is allocated by the checkpoint in this folder of plugins; nothing if there is none.

    Raises KubeletUnreachable if it cannot be read.
    """
    path = folder / FILE
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Checkpoint)
        return [_allocated(one) for one in stored.data.entries or ()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, DecodeError) as error:
        raise KubeletUnreachable(f"kubelet's {FILE} cannot be read: {error}") from error


def _allocated(entry: _Entry) -> AllocatedDevices:
    answer = wire.ContainerAllocateResponse.FromString(entry.answer or b"")
    claims = (claim_of(one.name) for one in answer.cdi_devices)
    # A device near several NUMA nodes is listed at each.
    devices = frozenset(one for near in (entry.devices or {}).values() for one in near)
    return AllocatedDevices(
        PodUid(entry.uid),
        entry.container,
        entry.resource,
        devices,
        tuple(claim for claim in claims if claim),
    )


#: What of a predecessor's annotations containers are told in variables of the same names.
_TOLD = ("IDX", "POD", "DEV")


class ContainerStarts:
    """One start at a time, so that no two pods get the same free card."""

    def __init__(
        self,
        resources: PodResources,
        pods: DevicePods,
        files: GivenFiles,
        limits: HamiLimits,
        plugins: Path,
    ) -> None:
        """`plugins` is kubelet's folder of device plugins, where its checkpoint is."""
        self.state = AgentState()
        #: What each resource of ours advertises.
        self.lists: Mapping[str, DeviceList] = {}
        self.given: Given = files.load()
        #: Called when `given` has changed.
        self.on_change: Callable[[], None] = lambda: None
        self._resources = resources
        self._pods = pods
        self._files = files
        self._limits = limits
        self._plugins = plugins
        self._turn = asyncio.Lock()

    async def look(self) -> list[ContainerDevices]:
        """All containers of active pods; what is no longer given is forgotten.

        Raises KubeletUnreachable.
        """
        async with self._turn:
            listed, allocated = await self._listed()
            self._keep(still_given(self.given, listed, allocated))
            self._files.tidy(self.given)
            self._pods.forget({one.pod: None for one in listed})
        return listed

    async def prepare(self, resource: PluginResource, devices: Sequence[str]) -> None:
        """The container with these devices is about to start. Raises DevicesRefused."""
        async with self._turn:
            try:
                await self._prepare(resource, devices)
            except (NoOwner, CardsUnknown, KubeletUnreachable) as error:
                raise DevicesRefused(str(error)) from error
            except OSError as error:
                raise DevicesRefused(f"cannot write what the container gets: {error}") from error

    def check_offered(self, resource: PluginResource, devices: Sequence[str]) -> None:
        """Raises DevicesRefused unless these are devices that the node offers, each once."""
        if why := self._not_offered(resource, devices):
            raise DevicesRefused(why)

    def _not_offered(self, resource: PluginResource, devices: Sequence[str]) -> str:
        return not_offered(self.lists.get(resource.name, DeviceList(resource)), devices)

    async def _listed(self) -> tuple[list[ContainerDevices], list[AllocatedDevices]]:
        listed = await self._resources.listed()
        allocated = allocated_devices(self._plugins)
        return with_init_containers(listed, allocated, self._keys()), allocated

    def _keys(self) -> dict[PodUid, PodKey]:
        return {uid: one.key for uid, one in (self.state.tenants or {}).items()}

    async def _prepare(self, resource: PluginResource, devices: Sequence[str]) -> None:
        allocated = allocated_devices(self._plugins)
        owners = owners_of(resource.name, devices, allocated)
        if not all(is_own(device) for device in devices):
            # Another plugin gave them, and kubelet knows to which container: it stays as that one
            # answered.
            return
        # The node may offer fewer devices than when the container started first.
        written = {one.name for one in self.given.claims}
        why = self._not_offered(resource, devices)
        if why and not all(written & {*one.claims} for one in owners):
            raise NoOwner(why)
        listed, allocated = await self._listed()
        owners = owners_of(resource.name, devices, allocated)
        pod = await self._pods.pod(owners[0].uid, self._keys())
        given = still_given(self.given, listed, allocated)
        promised: dict[str, ContainerEdits] = {}
        for owner in owners:
            given, edits = await self._edits(given, pod, owner, resource, listed)
            for claim in owner.claims:
                if promised.setdefault(claim, edits) != edits:
                    raise NoOwner(
                        f"containers of {pod.key} have one promise of an older agent for different "
                        "parts of cards: create the pod anew"
                    )
        key = pod.key
        self._keep(
            given.with_claims(WrittenClaim(claim, key.namespace, key.name) for claim in promised)
        )
        for claim, edits in promised.items():
            self._files.write(claim, edits)

    async def _edits(
        self,
        given: Given,
        pod: DevicePod,
        owner: AllocatedDevices,
        resource: PluginResource,
        listed: Sequence[ContainerDevices],
    ) -> tuple[Given, ContainerEdits]:
        """What a container gets, and what is given with that."""
        more = ContainerEdits()
        if pod.allocation is None and not pod.problem and resource.unplaced is Unplaced.FREE_CARD:
            held = await self._held(pod, listed)
            offered = self.lists.get(resource.name, DeviceList(resource))
            given, cards = free_cards(given, pod, offered, owner.devices, held)
        else:
            charges, known = self._placed(pod, owner, resource)
            if not charges:
                return given, ContainerEdits({VISIBLE_DEVICES: VOID.value})
            cards = tuple(one.uuid for one in charges)
            claim = next(iter(owner.claims), "")
            more = self._limits.of(pod, owner.container, charges, known, claim)
        return given, _variables(resource, pod, cards).and_more(more)

    def _placed(
        self, pod: DevicePod, owner: AllocatedDevices, resource: PluginResource
    ) -> tuple[tuple[CardCharge, ...], tuple[Gpu, ...]]:
        """The container's part of the node's cards, and these."""
        known = self.state.cards
        if known is None:
            raise CardsUnknown("the cards of this node are not known yet")
        charges = placed_cards(pod, owner.container, resource.name, known)
        if resource.slices and len(charges) != len(owner.devices):
            raise CardsUnknown(
                f"container {owner.container!r} of {pod.key} has {len(owner.devices)} devices of "
                f"{resource.name}, and {len(charges)} cards in its allocation"
            )
        return charges, known

    async def _held(self, pod: DevicePod, listed: Sequence[ContainerDevices]) -> set[GpuUuid]:
        """The cards that are not free for this pod."""
        if self.state.cards is None:
            raise CardsUnknown("the cards of this node are not known yet")
        others = [one for one in await self._pods.on_node() if one.uid != pod.uid]
        found = {card for one in others for card in held_by(one, self.state.cards)}
        return found | {*device_uuids(listed, self.lists)}

    def _keep(self, given: Given) -> None:
        if given != self.given:
            self._files.store(given)
            self.given = given
            self.on_change()


def _variables(
    resource: PluginResource, pod: DevicePod, cards: Sequence[GpuUuid]
) -> ContainerEdits:
    found = {VISIBLE_DEVICES: ",".join(cards)}
    if resource.numbers:
        for name in (f"{resource.numbers}_{one}" for one in _TOLD):
            if name in pod.annotations:
                found[name] = pod.annotations[name]
    return ContainerEdits(found)
