"""Names of HAMi and its ancestor, and the texts of their annotations: cards, registers, locks."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.agent_annotation import read_agent
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.printable import value_text
from kubeshare_py.domain.quantity import CLAIMED_CARDS

# The names of HAMi and of its ancestor, 4paradigm's vGPU scheduler, and what both configure.
#
# Sources: pkg/util and pkg/device of github.com/Project-HAMi/HAMi (v2.10.0), and the same folders
# of github.com/4paradigm/k8s-vgpu-scheduler, of which HAMi is the successor. Names of annotations
# begin with `hami.io/`, and with `4pd.io/` and `hami.sh/` in the ancestor.


#: Profiles: whose annotations are written, and how requests are understood.
HAMI = "hami"
SEED = "4paradigm"
PROFILES = (HAMI, SEED)

#: The vendor in a record of an assignment, whatever the card's model.
NVIDIA = "NVIDIA"

#: Annotations that users write on pods. A list is separated by commas.
USE_TYPE = "nvidia.com/use-gputype"
NO_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
NO_UUID = "nvidia.com/nouse-gpuuuid"
NUMA_BIND = "nvidia.com/numa-bind"
MODE = "nvidia.com/vgpu-mode"
NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS = "hami.io/device-scoring-weights"
#: Those that count in the ancestor too.
SEED_ASKS = frozenset({USE_TYPE, NO_TYPE, NUMA_BIND})
ASKS = frozenset(
    {
        *(USE_TYPE, NO_TYPE, USE_UUID, NO_UUID, NUMA_BIND, MODE),
        *(NODE_POLICY, CARD_POLICY, SCORING_WEIGHTS),
    }
)

#: An annotation of nodes that administrators write: UUIDs of cards that get no new pods.
DEVICE_CORDON = "hami.io/device-cordon"
#: The label of nodes on which HAMi's device plugin runs.
GPU_NODE = "gpu"
GPU_NODE_ON = "on"

#: A card's mode, which `vgpu-mode` names.
MODE_MIG = "mig"
MODE_CORE = "hami-core"
MODE_MPS = "mps"
MODES = (MODE_CORE, MODE_MIG, MODE_MPS)

#: Values of `bind-phase`.
ALLOCATING = "allocating"
SUCCESS = "success"
FAILED = "failed"

#: What memory is counted in, and cores of a card that is not scaled.
MIB = 2**20
CARD_CORES = 100

#: The account of this project's device plugin.
NODE_AGENT = "kubeshare-node-agent"

#: Amounts of HAMi are Go's int32.
MOST = 2**31 - 1
_NS = 10**9

_QUALIFIED = re.compile(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorKeys:
    """The annotations of one vendor's cards.

    `word` names the vendor in a record. Of nodes are `register`, its cards, and `handshake`, the
    time at which its device plugin was asked for a sign of life. Of pods are `to_allocate`, which
    the plugin empties container by container, and `allocated`, which stays.
    """

    word: str
    register: str
    handshake: str
    to_allocate: str
    allocated: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemKeys:
    """The annotations of one system, whatever the vendor.

    Of nodes is `lock`, of pods are the others: the chosen node, when it was chosen, when the pod
    was bound (Unix seconds), and how far its device plugin is. `ignore` is the label by which
    namespaces and pods say that the webhook leaves them alone.
    """

    node: str
    time: str
    bind_time: str
    bind_phase: str
    lock: str
    ignore: str

    @property
    def of_pods(self) -> frozenset[str]:
        """The annotations that only the scheduler writes on pods: all but `bind_phase`."""
        return frozenset({self.node, self.time, self.bind_time})

    @property
    def on_pods(self) -> frozenset[str]:
        """All those of pods, of whatever vendor their cards are."""
        return self.of_pods | {self.bind_phase}

    def bound(self, node: str, decided_at_ns: int, phase: str = ALLOCATING) -> dict[str, str]:
        """The values of `on_pods` for a pod that is bound to this node."""
        moment = str(decided_at_ns // _NS)
        return {
            self.node: node,
            self.time: moment,
            self.bind_time: moment,
            self.bind_phase: phase,
        }


SYSTEMS: Mapping[str, SystemKeys] = {
    profile: SystemKeys(
        node=f"{domain}/vgpu-node",
        time=f"{domain}/vgpu-time",
        bind_time=f"{domain}/bind-time",
        bind_phase=f"{domain}/bind-phase",
        lock=f"{domain}/mutex.lock",
        ignore=f"{domain}/webhook",
    )
    for profile, domain in ((HAMI, "hami.io"), (SEED, "4pd.io"))
}
NVIDIA_KEYS: Mapping[str, VendorKeys] = {
    profile: VendorKeys(
        word=NVIDIA,
        register=f"{nodes}/node-nvidia-register",
        handshake=f"{nodes}/node-handshake",
        to_allocate=f"{pods}/vgpu-devices-to-allocate",
        allocated=f"{pods}/vgpu-devices-allocated",
    )
    for profile, nodes, pods in ((HAMI, "hami.io", "hami.io"), (SEED, "4pd.io", "hami.sh"))
}
#: How well cards of a node are joined, as HAMi's device plugin measures it.
PAIR_SCORES = "hami.io/node-nvidia-score"
#: Which part of a card a pod has in HAMi's mode `mig`.
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiSettings:
    """What administrators of HAMi configure, with its defaults (device-config.yaml, NVIDIA).

    `count` to `priority` are names of resources. `default_memory` is in MiB per card, 0 for the
    whole card; `default_cores` in hundredths of a card; `default_gpu_num` the cards of a container
    that asks for memory or cores alone, 0 for none; `memory_factor` the MiB of one unit of memory.
    The policies are those of pods without the annotation. `profile` is one of `PROFILES`, and
    `device_plugin` the ServiceAccount of the device plugin that gives containers their cards, as
    `namespace/name`, or `name` in the scheduler's namespace.

    Invariants, else ValueError: names are those of resources, and differ; amounts are within their
    bounds.
    """

    profile: str = HAMI
    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    memory_percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"
    default_memory: int = 0
    default_cores: int = 0
    default_gpu_num: int = 1
    memory_factor: int = 1
    node_policy: str = "binpack"
    card_policy: str = "spread"
    device_plugin: str = NODE_AGENT

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ValueError(f"profile: {self.profile!r} is none of {', '.join(PROFILES)}")
        for name in ("count", "memory", "memory_percentage", "cores", "priority"):
            if not _QUALIFIED.fullmatch(getattr(self, name)):
                raise ValueError(f"{name}: {getattr(self, name)!r} is no name of a resource")
        if len(self.resources) < len(_RESOURCES):
            raise ValueError("two resources have the same name")
        for name, most in _AMOUNTS.items():
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name}: {getattr(self, name)} is not within 0…{most}")
        if not self.memory_factor:
            raise ValueError("memory_factor: 0 is not within 1…1000")

    @property
    def system(self) -> SystemKeys:
        """The annotations that the profile's system writes."""
        return SYSTEMS[self.profile]

    @property
    def nvidia(self) -> VendorKeys:
        """The annotations of its NVIDIA cards."""
        return NVIDIA_KEYS[self.profile]

    @property
    def resources(self) -> frozenset[str]:
        """The names of all its resources."""
        return frozenset(getattr(self, name) for name in _RESOURCES)


_RESOURCES = ("count", "memory", "memory_percentage", "cores", "priority")
_AMOUNTS: Mapping[str, int] = {
    "default_memory": MOST,
    "default_cores": CARD_CORES,
    "default_gpu_num": CLAIMED_CARDS.most,
    "memory_factor": 1000,
}
#: The names of all settings, for configurations.
SETTINGS = tuple(one.name for one in fields(HamiSettings))


# The text that says which parts of which cards a pod's containers have.
#
# Each card of a container is a record `UUID,VENDOR,MIB,CORES:`. After the records of each container
# comes a `;`, init containers first; a container without cards has the `;` alone. The ancestor
# writes one `;` after all containers, so that a record does not show its container. Source:
# devices.go of pkg/device in github.com/Project-HAMi/HAMi (EncodePodSingleDevice,
# DecodePodDevices), and util.go of pkg/util in github.com/4paradigm/k8s-vgpu-scheduler.


CARD_END = ":"
CONTAINER_END = ";"
_FIELDS = 4
_SEPARATORS = re.compile("[,:;]")
_ENDS = re.compile("[:;]")
_INTEGER = re.compile("[+-]?[0-9]{1,32}")
_MAX_SHOWN = 64


class DeviceRecord(msgspec.Struct, frozen=True, gc=False):
    """One card of a container: memory in MiB, cores in hundredths of a card; Go's int32 both.

    Invariant, else ValueError: no separator in the names.
    """

    uuid: str
    vendor: str
    memory_mib: int
    cores: int

    def __post_init__(self) -> None:
        if _SEPARATORS.search(self.uuid) or _SEPARATORS.search(self.vendor):
            raise ValueError(f"{self.uuid!r} and {self.vendor!r}: must have none of , : ;")

    def __str__(self) -> str:
        return f"{self.uuid},{self.vendor},{self.memory_mib},{self.cores}{CARD_END}"


#: The records of one container, and those of all containers of a pod.
Slot = tuple[DeviceRecord, ...]
Slots = tuple[Slot, ...]


def encode(slots: Iterable[Sequence[DeviceRecord]]) -> str:
    """The text for all containers of a pod, init containers first, as HAMi writes it."""
    return "".join("".join(map(str, slot)) + CONTAINER_END for slot in slots)


def encode_as_seed(slots: Iterable[Sequence[DeviceRecord]]) -> str:
    """The same as the ancestor writes it: one end after all containers."""
    return "".join(str(record) for slot in slots for record in slot) + CONTAINER_END


def decode(text: str) -> Slots | str:
    """The records by container, as both systems read them; a sentence if one has no such form.

    There is one slot more than there are ends, nearly always an empty one. What has no comma says
    nothing, and what follows a fourth field neither.
    """
    slots = []
    for part in text.split(CONTAINER_END):
        slot = _decode_container(part)
        if isinstance(slot, str):
            return slot
        slots.append(slot)
    return tuple(slots)


def first_fields(text: str) -> tuple[str, ...]:
    """The first field of each part of a text, each once; of a record that is its uuid."""
    parts = filter(None, _ENDS.split(text))
    return tuple(dict.fromkeys(part.partition(",")[0] for part in parts))


def int32(text: str) -> int | None:
    """A decimal integer as Go's ParseInt reads it for an int32; None for anything else."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -MOST - 1 <= number <= MOST else None


def _decode_container(text: str) -> Slot | str:
    records = []
    for part in text.split(CARD_END):
        if "," not in part:
            continue
        fields = part.split(",")
        if len(fields) < _FIELDS:
            return f"{value_text(part, _MAX_SHOWN)} has {len(fields)} fields, not {_FIELDS}"
        memory, cores = int32(fields[2]), int32(fields[3])
        if memory is None:
            return f"{value_text(part, _MAX_SHOWN)}: memory is no number of 32 bits"
        if cores is None:
            return f"{value_text(part, _MAX_SHOWN)}: cores are no number of 32 bits"
        records.append(DeviceRecord(fields[0], fields[1], memory, cores))
    return tuple(records)


# The text of a Node's annotation in which a device plugin says which cards the node has.
#
# HAMi's for NVIDIA is a JSON list of objects without the keys whose value is 0, false or "". Older
# releases, other vendors and the ancestor write a record for each card, which ends with a colon:
# `UUID,COUNT,MIB,CORES,TYPE,NUMA,HEALTH`, and HAMi `,INDEX,MODE` behind it. Memory and cores are
# those that pods may hold in all, scaled. Source: devices.go of pkg/device in
# github.com/Project-HAMi/HAMi (MarshalNodeDevices, EncodeNodeDevices and their readers).


#: The numbers of fields of a record: the ancestor's, and HAMi's.
_SEED_FIELDS, _HAMI_FIELDS = 7, 9
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
#: Go's encoder of JSON writes these characters so, for HTML.
_ESCAPED = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"})

_Signed = Annotated[int, Meta(ge=-MOST - 1, le=MOST)]
_Unsigned = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_CardNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]


#: The keys of a card that are not called as here.
_KEYS = {"uuid": "id", "memory_mib": "devmem", "cores": "devcore", "mig_profiles": "migProfiles"}


class MigPlace(msgspec.Struct, frozen=True, gc=False):
    """Where on a card an instance of some profile may be: its first slice, and how many."""

    start: _Unsigned = 0
    size: _Unsigned = 0


class MigProfile(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"memory_mib": "memoryMB", "cores": "core", "slices": "sliceCount"},
):
    """A profile of MIG instances that a card offers; `cores` are hundredths of the card."""

    name: str = ""
    memory_mib: _Signed = 0
    cores: _Signed = 0
    slices: _Unsigned = 0
    placements: tuple[MigPlace, ...] | None = None


class RegisteredCard(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename=_KEYS):
    """A card as the annotation describes it, in the order of its keys.

    `count` is how many pods may have a part of it. Memory and cores (hundredths of a card) are
    those that pods may hold in all, as scaled.
    """

    uuid: str = ""
    index: _CardNumber = 0
    count: _Signed = 0
    memory_mib: _Signed = 0
    cores: _Signed = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    mig_profiles: tuple[MigProfile, ...] = ()
    health: bool = False


_cards = msgspec.json.Decoder(tuple[RegisteredCard, ...] | None)
#: Bad UTF-8 and deep nesting do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def read_register(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of a node in either form; a sentence if the text has neither.

    One bad card makes all of the text unreadable, as in HAMi.
    """
    if text.lstrip()[:1] in ("[", "n"):
        return read_json(text)
    return read_records(text)


def read_json(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of a JSON list; `null` is an empty one. A sentence if it is no such list."""
    try:
        return _cards.decode(text) or ()
    except _UNDECODABLE as error:
        return str(error)


def read_records(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of records with 7 or 9 fields; a sentence that names the field if one is bad."""
    if CARD_END not in text:
        return "the end of a record is missing"
    cards = []
    for part in filter(None, text.split(CARD_END)):
        card = _read_record(part)
        if isinstance(card, str):
            return f"{value_text(part, _MAX_SHOWN)}: {card}"
        cards.append(card)
    return tuple(cards)


def write_json(cards: Iterable[RegisteredCard]) -> str:
    """The JSON list that HAMi's device plugin for NVIDIA writes."""
    return msgspec.json.encode([*cards]).decode().translate(_ESCAPED)


def write_records(cards: Iterable[RegisteredCard], *, as_seed: bool = False) -> str:
    """Records of 9 fields, or of 7 as the ancestor writes them."""
    return "".join(_written(card, as_seed=as_seed) + CARD_END for card in cards)


def _written(card: RegisteredCard, *, as_seed: bool) -> str:
    health = "true" if card.health else "false"
    own = (card.uuid, card.count, card.memory_mib, card.cores, card.type, card.numa, health)
    more = () if as_seed else (card.index, card.mode)
    return ",".join(map(str, (*own, *more)))


def _read_record(text: str) -> RegisteredCard | str:
    fields = text.split(",")
    if len(fields) not in (_SEED_FIELDS, _HAMI_FIELDS):
        return f"has {len(fields)} fields, not {_SEED_FIELDS} or {_HAMI_FIELDS}"
    uuid, *numbers, kind, numa_text, health_text = fields[:_SEED_FIELDS]
    index_text, mode = fields[_SEED_FIELDS:] or ("0", MODE_CORE)
    count, memory, cores = map(int32, numbers)
    numa, index = integer(numa_text), integer(index_text)
    found = (("count", count), ("memory", memory), ("core", cores), ("numa", numa))
    wrong = [f"{name} is no number" for name, number in found if number is None]
    if health_text not in _TRUE | _FALSE:
        wrong.append("health is neither true nor false")
    if index is None or index < 0:
        wrong.append("index is no number from 0 on")
    if wrong:
        return wrong[0]
    return RegisteredCard(
        uuid=uuid, index=index or 0, count=count or 0, memory_mib=memory or 0, cores=cores or 0,
        type=kind, numa=numa or 0, mode=mode, health=health_text in _TRUE,
    )  # fmt: skip


# The lock of a node whose device plugin is HAMi's, as an annotation of the Node.
#
# HAMi's value is `TIME,NAMESPACE,POD`, the ancestor's only `TIME`, in Go's RFC 3339. The plugin
# gives its devices to the pod that it names, and removes it (GetPendingPod in pkg/util/util.go and
# ParseNodeLock in pkg/util/nodelock of github.com/Project-HAMi/HAMi). Other vendors' plugins have
# locks of their own: `dialects/cambricon`.


_DIALECT = "hami"
_TIME = re.compile(
    r"(?P<moment>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,]\d+)?(?P<zone>Z|[+-]\d{2}:\d{2})"
)
_PARTS = 3
#: A name of a pod or a namespace, RFC 1123.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class HeldLock:
    """Since when (Unix, s) a lock is held; `owner` is None if its value names no pod."""

    since: float
    owner: PodKey | None = None


def write_lock(now: float, owner: PodKey | None) -> str:
    """The value of a lock that is taken at `now` (Unix, s), in UTC."""
    moment = f"{datetime.fromtimestamp(int(now), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return moment if owner is None else f"{moment},{owner.namespace},{owner.name}"


def read_lock(text: str) -> HeldLock | None:
    """What the value says; None if it is malformed.

    The names of an owner become a path of a request: what no pod can be named is malformed.
    """
    moment, *owner = text.split(",")
    if owner and (len(owner) + 1 != _PARTS or not all(map(_NAME.fullmatch, owner))):
        return None
    since = _unix(moment)
    if since is None:
        return None
    return HeldLock(since, PodKey(*owner) if owner else None)


def node_locks(annotations: Mapping[str, str], resource: str) -> tuple[NodeLock, ...]:
    """The locks of a node: those of plugins that have registered it, and are not ours.

    `resource` is what the plugin advertises. If a plugin of the node's own agent serves it, HAMi's
    does not, whatever it wrote once.
    """
    for profile in (HAMI, SEED):
        if annotations.get(NVIDIA_KEYS[profile].register):
            break
    else:
        return ()
    if read_agent(annotations).serves(resource):
        return ()
    key = SYSTEMS[profile].lock
    text = annotations.get(key, "")
    held = read_lock(text) if text else None
    return (
        NodeLock(
            dialect=_DIALECT,
            key=key,
            text=text,
            owner=held.owner if held is not None else None,
            names_owner=profile == HAMI,
        ),
    )


def _unix(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    zone = "+00:00" if found["zone"] == "Z" else found["zone"]
    try:
        return datetime.fromisoformat(f"{found['moment']}{zone}").timestamp()
    except (ValueError, OverflowError):
        return None
