"""A node: what it offers besides GPUs, and which pods may use it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import NodeImage


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; only NoSchedule and NoExecute keep pods away."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


#: The Node annotation in which a node's agent says what it does there, and what it sees.
AGENT_ANNOTATION = "kubeshare.io/node-agent"


def slices_of(resource: str) -> str:
    """The word by which an agent says that its devices of this resource are slices of cards.

    It is one of its `plugins`. The bare name says that each device is a whole card.
    """
    return f"{resource} as slices"


@dataclass(frozen=True, slots=True)
class KubeletPick:
    """The cards that the kubelet gave to one pod by a device plugin."""

    uid: PodUid
    cards: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWords:
    """What a node's agent says: the resources that its device plugins serve, and who holds cards.

    `picks` is None if it does not know, or if there is no agent. `problem` says why its words
    cannot be used, "" if they can.
    """

    plugins: tuple[str, ...] = ()
    picks: tuple[KubeletPick, ...] | None = None
    problem: str = ""

    def serves(self, resource: str) -> bool:
        """Whether its device plugins serve the resource, by whole cards or by slices of them."""
        return resource in self.plugins or slices_of(resource) in self.plugins


NO_AGENT = AgentWords()
#: In the name of a resource that marks nodes: between a contested name and the dialects whose it is
#: there. No resource of Kubernetes has such a name.
CONTESTED_OF = " of "


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLock:
    """The lock of a node's device plugin, which the kubelet does not tell for which pod it asks.

    The plugin looks for the pod in the annotation `key`, so that only one pod at a time may be on
    its way to it: one that asks in this dialect is bound once the lock is its own. `text` is the
    annotation's value, "" if the lock is free, and `owner` the pod that it names. `names_owner`:
    the plugin expects a pod's name in it.
    """

    dialect: str
    key: str
    text: str = ""
    owner: PodKey | None = None
    names_owner: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. `allocatable`: cpu in milli, other resources in base units, pods as a count."""

    name: NodeName
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: tuple[tuple[str, int], ...] = ()
    #: Features that its kubelet declares and pods may need, sorted.
    features: tuple[str, ...] = ()
    images: tuple[NodeImage, ...] = ()
    #: The first InternalIP, for people.
    address: str = ""
    agent: AgentWords = NO_AGENT
    #: Of device plugins that are not ours; placement does not depend on them.
    locks: tuple[NodeLock, ...] = ()
    #: Cards that administrators keep new pods off, sorted; with a card its instances too.
    cordoned: tuple[GpuUuid, ...] = ()
    #: When the API server stored it first, in its RFC 3339, UTC to the second; "" if unknown.
    created: str = ""


class NodeAtDecision(Struct, frozen=True, kw_only=True):
    """A node as it was when a pod was sent to it: all its cards, and its allocatable amounts.

    `agent` is what its agent said then. `at` is the moment (s) on the machine's clock, which is
    monotonic and not Unix time. `notes` are those of the pod's request.
    """

    name: str = ""
    cards: tuple[Gpu, ...] = ()
    allocatable: tuple[tuple[str, int], ...] = ()
    at: float = 0.0
    notes: tuple[tuple[str, str], ...] = ()
    agent: AgentWords = NO_AGENT
