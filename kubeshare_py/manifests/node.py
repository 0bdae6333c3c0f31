"""A v1 Node in the fields that placement depends on, and the locks of device plugins on it."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from kubeshare_py.dialects.agent_annotation import read_agent
from kubeshare_py.dialects.dialect import NodeKeys
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.hami.annotations import DEVICE_CORDON
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Node, NodeLock, Taint
from kubeshare_py.domain.pod import NODE_FEATURES, NodeImage
from kubeshare_py.domain.quantity import (
    CARDS_OF_NODE,
    MAX,
    NODE_IMAGES,
    NODE_RESOURCES,
    BadQuantity,
    Quantity,
    amount,
)
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.common_definitions import ObjectMeta

# A v1 Node in the fields that placement depends on, and its conversion to the domain's Node.
#
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/


#: Reads the locks of device plugins from a node's annotations, and from the names of its
#: allocatable resources.
ReadLocks = Callable[[Mapping[str, str], Collection[str]], tuple[NodeLock, ...]]

_EVERY_NODES = ("cpu", "ephemeral-storage", "memory", "nvidia.com/gpu", "pods")


class TaintFields(msgspec.Struct, frozen=True, gc=False):
    """A taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec."""

    taints: tuple[TaintFields, ...] | None = None
    unschedulable: bool = False


class NodeAddress(msgspec.Struct, frozen=True, gc=False):
    """One of a node's addresses."""

    type: str = ""
    address: str = ""


class ImageFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An image on the node."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The status."""

    allocatable: dict[str, Quantity] | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    images: tuple[ImageFields, ...] | None = None
    declared_features: tuple[str, ...] | None = msgspec.field(default=None, name="declaredFeatures")


class NodeFields(msgspec.Struct, frozen=True, gc=False):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def to_domain(
    node: NodeFields, dialects: Dialects = SHAREDGPU_ALONE, locks: ReadLocks | None = None
) -> Node:
    """The domain's Node. Never raises.

    `locks` reads the locks of its device plugins; None for none.

    A resource that is not in `allocatable` (pods included), or is no quantity there, is not
    offered. At most `NODE_RESOURCES` count: those of every node, then by name.

    Of a resource that a dialect owns, a node that does not have it in `allocatable` has any amount:
    the dialect's request decides, and the kubelet bounds only what it knows itself
    (removeMissingExtendedResources in pkg/kubelet/lifecycle/predicate.go of
    github.com/kubernetes/kubernetes).
    """
    spec = node.spec
    offered = node.status.allocatable or {}
    allocatable = _allocatable(offered, dialects.every.resources)
    if dialects.every.resources:
        allocatable = tuple(
            sorted({**_unbounded(node, dict(allocatable), dialects), **dict(allocatable)}.items())
        )
    return Node(
        name=NodeName(node.metadata.name),
        labels=node.metadata.labels or {},
        taints=tuple(Taint(one.key, one.value, one.effect) for one in spec.taints or ()),
        unschedulable=spec.unschedulable,
        allocatable=allocatable,
        features=tuple(sorted({*(node.status.declared_features or ())} & NODE_FEATURES)),
        images=tuple(map(_image, (node.status.images or ())[: NODE_IMAGES.most])),
        address=_internal_ip(node.status.addresses or ()),
        agent=read_agent(node.metadata.annotations or {}),
        cordoned=_cordoned(node.metadata.annotations or {}),
        created=node.metadata.creation_timestamp or "",
        locks=locks(node.metadata.annotations or {}, offered) if locks is not None else (),
    )


def _cordoned(annotations: Mapping[str, str]) -> tuple[GpuUuid, ...]:
    """The cards of HAMi's annotation; more than a node can have are passed over."""
    text = annotations.get(DEVICE_CORDON)
    if not text:
        return ()
    named = {uuid for part in text.split(",") if (uuid := part.strip())}
    return tuple(map(GpuUuid, sorted(named)[: CARDS_OF_NODE.most]))


def _unbounded(node: NodeFields, allocatable: dict[str, int], dialects: Dialects) -> dict[str, int]:
    """Names that dialects own and the kubelet does not bound, and the node's marks."""
    meta = node.metadata
    offered = node.status.allocatable or {}
    owned = {name: allocatable[name] for name in dialects.every.resources & allocatable.keys()}
    keys = NodeKeys(meta.name, meta.labels or {}, meta.annotations or {}, owned)
    owners = dialects.owners(keys)
    native = dialects.contested - {resource for resource, _ in owners}
    names = dialects.every.resources - native - offered.keys()
    return dict.fromkeys((*names, *dialects.owner_marks(owners), *dialects.marks(keys)), MAX)


def _allocatable(
    resources: dict[str, Quantity], owned: frozenset[str]
) -> tuple[tuple[str, int], ...]:
    amounts = []
    # Each takes a column of all nodes' tables, and a node may write anything here.
    first = owned.union(_EVERY_NODES)
    names = sorted(resources, key=lambda name: (name not in first, name))
    for name in sorted(names[: NODE_RESOURCES.most]):
        quantity = resources[name]
        try:
            amounts.append((name, amount(name, quantity)))
        except BadQuantity:
            continue
    return tuple(amounts)


@remembered(8192)
def _image(fields: ImageFields) -> NodeImage:
    """The image; nodes of a cluster have many in common."""
    return NodeImage(fields.names or (), fields.size_bytes)


def _internal_ip(addresses: tuple[NodeAddress, ...]) -> str:
    return next((one.address for one in addresses if one.type == "InternalIP"), "")


# Locks of device plugins on Nodes, taken and freed by JSON patches that test the annotation.
#
# The API server refuses the patch with 422 if the annotation is not what it is thought to be, and a
# change of anything else of the Node does not matter. A test for null holds where there is nothing:
# https://datatracker.ietf.org/doc/html/rfc6902 leaves that open, and kube-apiserver's library
# (gopkg.in/evanphx/json-patch.v4) has it so.


#: The status if the annotation is not what the patch says.
TEST_FAILED = 422


def lock_patch(key: str, text: str) -> bytes:
    """Take a free lock."""
    path = _pointer(key)
    return msgspec.json.encode(
        [
            {"op": "test", "path": path, "value": None},
            {"op": "add", "path": path, "value": text},
        ]
    )


def unlock_patch(key: str, text: str) -> bytes:
    """Free a lock that still has this text."""
    path = _pointer(key)
    return msgspec.json.encode(
        [{"op": "test", "path": path, "value": text}, {"op": "remove", "path": path}]
    )


def _pointer(key: str) -> str:
    """A JSON pointer: https://datatracker.ietf.org/doc/html/rfc6901."""
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
