"""What a container gets of HAMi-core: its limits in variables, and the library in mounts.

Names and meanings are HAMi's (pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go of
github.com/Project-HAMi/HAMi, v2.10.0) and those that its library reads (src/multiprocess of
github.com/Project-HAMi/HAMi-core, 8f3a89c). A memory limit is that of the card with this number in
the container, as the driver counts its cards: by their places on the bus, in whatever order the
container asked for them. The library takes CUDA's numbers for the driver's, so CUDA is told to
count in the same way.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.node_agent.device_plugin.container_edits import ContainerEdits, HostMount

#: HAMi's `global.gpuHookPath`; the library's own folder is below it.
HOOK = "/usr/local"
FOLDER, LIBRARY, PRELOAD = "vgpu", "libvgpu.so", "ld.so.preload"
#: For all containers of a node together, where the library takes turns (src/utils.c).
LOCKS = "/tmp/vgpulock"
#: Of versions of the library that need a licence, if the node has it.
LICENCE, VALIDATOR = "license", "vgpuvalidator"
#: The resource by whose amount HAMi tells a container's priority, 0 before 1.
PRIORITY = "nvidia.com/priority"
#: A container says by it that it does without the library.
DISABLE = "CUDA_DISABLE_CONTROL"
_MEBIBYTE = 2**20
_WHOLE_PERCENT = 100
#: What Go's strconv.ParseBool takes for true.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_AMOUNT = re.compile(r"\d{1,9}")


class HamiCoreSettings(msgspec.Struct, frozen=True, gc=False):
    """How HAMi-core is used on a node.

    `core_policy` is `default`, `force` or `disable`, `log_level` the library's (0 errors, 1
    warnings, 3 information, 4 all), "" for its own. `oversubscribe` tells the library that pods may
    get more memory of a card than it has. `priority` is the resource of that name. With `feedback`
    limits of time and priorities count only while containers share a card. HAMi's metrics of the
    node are at `metrics_port`, None for nowhere, 0 for any port.
    """

    hook: str = HOOK
    core_policy: str = "default"
    oversubscribe: bool = False
    log_level: str = ""
    priority: str = PRIORITY
    feedback: bool = False
    metrics_port: int | None = None
    legacy_metrics: bool = False

    @property
    def folder(self) -> str:
        """The library's folder, of the node and of each container."""
        return f"{self.hook.rstrip('/')}/{FOLDER}"


class HamiContainer(msgspec.Struct, frozen=True, gc=False):
    """A container with a share of some cards.

    `variables` are those that it sets to a fixed value, `amounts` what it asks for, by resource.
    `charges` are its cards.
    """

    charges: tuple[CardCharge, ...]
    limit_milli: int
    variables: Mapping[str, str] = {}
    amounts: Mapping[str, str] = {}

    @property
    def is_free(self) -> bool:
        """Whether it says that it does without the library."""
        return self.variables.get(DISABLE, "") in _TRUE


class HamiFiles(msgspec.Struct, frozen=True, gc=False):
    """Files of the node for one container, by their paths there.

    `folder` is for the container's shared region alone, `region` is the name of that in it.
    """

    library: str
    preload: str
    folder: str
    region: str
    licence: tuple[str, str] | None = None


def is_held(allocation: Allocation | None) -> bool:
    """Whether HAMi-core is to hold the pod to its share."""
    return allocation is not None and allocation.backend is IsolationBackend.HAMI_CORE


def limit_of(allocation: Allocation, container: ContainerRef | None) -> int:
    """The limit of time of a container on each of its cards, in milli; 0 is none.

    A container without a claim of its own has that of the pod.
    """
    for one in allocation.containers:
        if one.container == container:
            return one.limit_milli
    return allocation.isolation.limit_milli if allocation.isolation else 0


def edits(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles, cards: Sequence[Gpu]
) -> ContainerEdits:
    """What the container gets, besides its cards; nothing if all of them are its pod's alone.

    `cards` are those of the node, the container's among them.
    """
    if all(one.exclusive for one in container.charges):
        return ContainerEdits()
    return ContainerEdits(
        {**_limits(container, cards), **_settings(container, settings, files)},
        _mounts(container, settings, files),
    )


def _limits(container: HamiContainer, cards: Sequence[Gpu]) -> dict[str, str]:
    """Memory of each card, and time. HAMi-core takes 0 for no limit at all."""
    places = {card.uuid: (card.index, card.uuid) for card in cards}
    charges = sorted(container.charges, key=lambda one: places[one.uuid])
    found = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{max(charge.memory_bytes // _MEBIBYTE, 1)}m"
        for number, charge in enumerate(charges)
        if charge.memory_bytes and not charge.exclusive
    }
    percent = min(container.limit_milli * _WHOLE_PERCENT // WHOLE_MILLI, _WHOLE_PERCENT)
    found["CUDA_DEVICE_SM_LIMIT"] = str(max(percent, 1) if container.limit_milli else 0)
    if len(charges) > 1:
        found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return found


def _settings(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles
) -> dict[str, str]:
    found = {"CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{settings.folder}/{files.region}"}
    if settings.oversubscribe:
        found["CUDA_OVERSUBSCRIBE"] = "true"
    if settings.core_policy != "default":
        found["GPU_CORE_UTILIZATION_POLICY"] = settings.core_policy
    if settings.log_level:
        found["LIBCUDA_LOG_LEVEL"] = settings.log_level
    priority = container.amounts.get(settings.priority, "")
    if _AMOUNT.fullmatch(priority):
        found["CUDA_TASK_PRIORITY"] = priority
    return found


def _mounts(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles
) -> tuple[HostMount, ...]:
    folder = settings.folder
    found = [
        HostMount(files.folder, folder),
        HostMount(files.library, f"{folder}/{LIBRARY}", read_only=True),
        HostMount(LOCKS, LOCKS),
    ]
    if not container.is_free:
        found.append(HostMount(files.preload, f"/etc/{PRELOAD}", read_only=True))
    if files.licence is not None:
        licence, validator = files.licence
        found.append(HostMount(licence, f"/tmp/{LICENCE}", read_only=True))
        found.append(HostMount(validator, f"/usr/bin/{VALIDATOR}", read_only=True))
    return tuple(found)
