"""The names of HAMi and of its ancestor, 4paradigm's vGPU scheduler, and what both configure.

Sources: pkg/util and pkg/device of github.com/Project-HAMi/HAMi (v2.10.0), and the same folders of
github.com/4paradigm/k8s-vgpu-scheduler, of which HAMi is the successor. Names of annotations begin
with `hami.io/`, and with `4pd.io/` and `hami.sh/` in the ancestor.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from kubeshare_py.domain.bounds import CLAIMED_CARDS

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
        """Those that only the scheduler writes on pods: all but `bind_phase`."""
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
