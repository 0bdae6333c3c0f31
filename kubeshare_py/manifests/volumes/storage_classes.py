"""A storage.k8s.io/v1 StorageClass, in the fields that placement depends on.

https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/storage-class-v1/
"""

import msgspec

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import StorageClass
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods.in_tree_plugins import REPLACED_BY


class _ClassStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class _TopologyLine(_ClassStruct, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTerm(_ClassStruct, frozen=True):
    match_label_expressions: tuple[_TopologyLine, ...] | None = None


class StorageClassFields(_ClassStruct, frozen=True):
    """A StorageClass, which has no spec."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_TopologyTerm, ...] | None = None


def to_domain(fields: StorageClassFields) -> StorageClass:
    """The domain's class. Never raises."""
    return StorageClass(
        name=fields.metadata.name,
        provisioner=fields.provisioner,
        csi_driver=REPLACED_BY.get(fields.provisioner, fields.provisioner),
        waits=fields.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                Requirement(line.key, "In", line.values or ())
                for line in term.match_label_expressions or ()
            )
            for term in fields.allowed_topologies or ()
        ),
    )
