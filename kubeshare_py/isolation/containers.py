"""The table of what is injected into the containers of a pod of this scheduler.

Where labels on the pod ask, every container, init containers and sidecars included, gets the pod's
cards. Where containers ask, each gets its own, from annotations of its own. Containers without a
card get `void`, because CUDA images set NVIDIA_VISIBLE_DEVICES to `all` themselves and a pod's
value overrides the image's: https://github.com/NVIDIA/nvidia-container-toolkit
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialects import ContainerVariables
from kubeshare_py.dialects.results import GPU_UUID, OF_A_CONTAINER, key_of
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.isolation.backends import BACKENDS, HostVolume, Mount, Variable

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
PRELOAD = "LD_PRELOAD"
VOID = Variable(VISIBLE_DEVICES, "void")
CARDS = Variable.of_annotation(VISIBLE_DEVICES, GPU_UUID)
#: The parts of the driver in the container. KubeShare 2.0 sets this in every container with a card
#: (pkg/scheduler/pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0) and overrides the pod's
#: entry; here the pod's own entry, for graphics or video, is kept.
CAPABILITIES = Variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", is_default=True)
#: Variables by which NVIDIA's runtime gives a container with a card more devices of its node, which
#: the scheduler does not count, with the values that prevent it. The switches between all cards,
#: InfiniBand adapters and GPUDirect storage come by `enabled` and no other value; the right to
#: divide or monitor cards by any value but an empty one. Images may set them, and a pod's value
#: overrides the image's: internal/modifier/cdi.go (gatedDevices) and
#: cmd/nvidia-container-runtime-hook/container_config.go of
#: https://github.com/NVIDIA/nvidia-container-toolkit (d34b304)
DEVICE_VARIABLES = (
    Variable("NVIDIA_NVSWITCH", "disabled", is_default=True),
    Variable("NVIDIA_MOFED", "disabled", is_default=True),
    Variable("NVIDIA_GDS", "disabled", is_default=True),
    Variable("NVIDIA_MIG_CONFIG_DEVICES", "", is_default=True),
    Variable("NVIDIA_MIG_MONITOR_DEVICES", "", is_default=True),
)
_NOTHING: ContainerVariables = {}
#: The annotations of which each container has its own, by their paths.
_OWN = {Variable.of_annotation("", key).field_path: key for key in OF_A_CONTAINER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What a container gets, and the volumes that its pod gets for it."""

    variables: tuple[Variable, ...]
    preload: str = ""
    mounts: tuple[Mount, ...] = ()
    volumes: tuple[HostVolume, ...] = ()

    def without(self, names: Collection[str]) -> "Injection":
        """The injection without variables of these names, which are left to pods and images."""
        if all(one.name not in names for one in self.variables):
            return self
        kept = tuple(one for one in self.variables if one.name not in names)
        return replace(self, variables=kept)

    def of(self, container: ContainerRef) -> "Injection":
        """The same from the annotations of this container alone."""
        own = tuple(of_container(one, container) for one in self.variables)
        return replace(self, variables=own)

    def and_told(self, pairs: tuple[tuple[str, str], ...]) -> "Injection":
        """The injection with these variables from annotations, which a container's own replace."""
        if not pairs:
            return self
        told = (replace(Variable.of_annotation(*pair), is_default=True) for pair in pairs)
        return replace(self, variables=(*self.variables, *told))


@dataclass(frozen=True, slots=True)
class PodInjection:
    """What the containers of one pod get: all the same, or (`own`) each its own and others none."""

    every: Injection
    own: Mapping[ContainerRef, Injection] | None = None

    def of(self, container: ContainerRef) -> Injection:
        """What this container gets."""
        return self.every if self.own is None else self.own.get(container, self.every)

    def without(self, names: Collection[str]) -> "PodInjection":
        """As `Injection.without`."""
        own = self.own and {ref: one.without(names) for ref, one in self.own.items()}
        return PodInjection(self.every.without(names), own)

    @property
    def volumes(self) -> tuple[HostVolume, ...]:
        """The volumes that the pod gets, once each."""
        each = (self.every, *(self.own or {}).values())
        return tuple(dict.fromkeys(volume for one in each for volume in one.volumes))

    @property
    def shows_cards(self) -> bool:
        """Whether any container sees a card."""
        return bool(self.own) or VOID not in self.every.variables


NO_CARD = Injection(variables=(VOID,))
WHOLE_CARD = Injection(variables=(CARDS, CAPABILITIES, *DEVICE_VARIABLES))


def differs(variable: Variable) -> bool:
    """Whether each container has an annotation of its own for this variable."""
    return variable.field_path in _OWN


def of_container(variable: Variable, container: ContainerRef) -> Variable:
    """The variable from an annotation of this container, if there are such annotations."""
    key = _OWN.get(variable.field_path)
    return (
        variable if key is None else Variable.of_annotation(variable.name, key_of(container, key))
    )


def with_share(backend: IsolationBackend) -> Injection:
    """The injection for containers with a share under this back-end."""
    found = BACKENDS[backend]
    return Injection(
        variables=(*WHOLE_CARD.variables, *found.variables),
        preload=found.preload,
        mounts=found.mounts,
        volumes=found.volumes,
    )


def injection(reach: CardVisibility, backend: IsolationBackend) -> Injection:
    """The injection for the containers of a pod."""
    if reach is CardVisibility.SHARE:
        return with_share(backend)
    return WHOLE_CARD if reach is CardVisibility.WHOLE else NO_CARD


def container_injections(
    sees: Mapping[ContainerRef, CardVisibility],
    backend: IsolationBackend,
    told: ContainerVariables = _NOTHING,
) -> PodInjection:
    """The injections of a pod whose containers differ; those that are not named get no card.

    `told` are further variables of those that are named.
    """
    own = {
        one: injection(visible, backend).of(one).and_told(told.get(one, ()))
        for one, visible in sees.items()
    }
    return PodInjection(NO_CARD, own)
