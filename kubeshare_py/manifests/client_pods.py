"""Pods in clients' requests, which no API server has stored; among them PlacementReviews'.

A pod is decoded if it is as large as API servers store pods at most. What is larger no API server
can have shown, and reading it would take seconds.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_TEXT, beginning, printable
from kubeshare_py.manifests.api_paths import is_subdomain_name
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import ContainerResources, PodFields, PodStatus
from kubeshare_py.manifests.shallow_json import decoded
from kubeshare_py.manifests.state_group import API_VERSION, REVIEW
from kubeshare_py.views.view import ProspectView

#: etcd's default limit of a request (--max-request-bytes), in which JSON is longer than what is
#: stored; TotalAnnotationSizeLimitB of k8s.io/apimachinery/pkg/api/validation (in characters here).
MAX_POD_BYTES, MAX_ANNOTATIONS = 3 * 2**20, 256 * 2**10
#: The most containers of each kind, labels, annotations and resources of a RuntimeClass of a pod,
#: and ports and resources of a container: each takes some microseconds, a body has hundreds of
#: thousands, and no pod that runs has as many.
MOST_PARTS = 1024
_POD = msgspec.json.Decoder(PodFields)


class PodTooLarge(ValueError):
    """The pod is larger than API servers take them; the text says in what."""


def bounded_pod(text: bytes) -> PodFields:
    """The fields of a pod. Raises UNDECODABLE, and PodTooLarge."""
    if len(text) > MAX_POD_BYTES:
        raise PodTooLarge(f"a Pod of {len(text)} bytes")
    fields = decoded(_POD, text)
    meta, spec = fields.metadata, fields.spec
    annotations = meta.annotations or {}
    parts: dict[str, Collection[object] | None] = {
        "containers": spec.containers,
        "init containers": spec.init_containers,
        "labels": meta.labels,
        "annotations": annotations,
        "overheads": spec.overhead,
    }
    _expect_few(parts)
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        asked = container.resources or ContainerResources()
        _expect_few({"ports": container.ports, "requests": asked.requests, "limits": asked.limits})
    if sum(len(key) + len(value) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        raise PodTooLarge(f"a Pod with over {MAX_ANNOTATIONS} bytes of annotations")
    return fields


def _expect_few(parts: Mapping[str, Collection[object] | None]) -> None:
    """Raises PodTooLarge."""
    for what, found in parts.items():
        if len(found or ()) > MOST_PARTS:
            raise PodTooLarge(f"a Pod with over {MOST_PARTS} {what}")


# A PlacementReview of `state.kubeshare.io/v1`: what would become of a pod that does not exist.
#
# It is created as a SubjectAccessReview is: nothing is stored, and the answer has the status.
# https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access


class BadReview(ValueError):
    """The body is no PlacementReview; the text says why."""


class _ReviewSpec(msgspec.Struct, frozen=True):
    pod: msgspec.Raw


class _Review(msgspec.Struct, frozen=True):
    spec: _ReviewSpec


_REVIEW = msgspec.json.Decoder(_Review)


def read_review(body: bytes, namespace: str, uid: PodUid, created: str, dialects: Dialects) -> Pod:
    """The pod as it would be seen if it were created in the namespace now. Raises BadReview.

    Where it is, and what became of it, is nothing that a pod which does not exist could have: its
    node, status and deletion are left out, its uid and its age (RFC 3339) are the arguments.
    """
    try:
        fields = bounded_pod(bytes(decoded(_REVIEW, body).spec.pod))
    except UNDECODABLE as error:
        raise BadReview(f"not a {REVIEW}: {error}") from error
    except PodTooLarge as error:
        raise BadReview(f"not a {REVIEW}: {error}") from error
    own, name = fields.metadata.namespace, fields.metadata.name
    if own not in ("", namespace):
        raise BadReview(f"the pod's namespace {_said(own)} is not that of the request")
    if name and not is_subdomain_name(name):
        raise BadReview(f"the pod's name {_said(name)} is no RFC 1123 subdomain")
    metadata = msgspec.structs.replace(fields.metadata, namespace=namespace)
    return to_domain(as_created(fields, metadata, uid, created), dialects)


def as_created(fields: PodFields, metadata: ObjectMeta, uid: PodUid, created: str) -> PodFields:
    """The pod as it would be seen after its creation, with this metadata, uid and age."""
    metadata = msgspec.structs.replace(
        metadata, uid=uid, creation_timestamp=created, deletion_timestamp=None
    )
    spec = msgspec.structs.replace(fields.spec, node_name="")
    return msgspec.structs.replace(fields, metadata=metadata, spec=spec, status=PodStatus())


def _said(text: str) -> str:
    return printable(beginning(repr(text), MAX_TEXT))


def reviewed(namespace: str, found: ProspectView) -> dict[str, Any]:
    """The answer to a review."""
    metadata = {"namespace": namespace, "creationTimestamp": None}
    head = {"kind": REVIEW, "apiVersion": API_VERSION, "metadata": metadata}
    return {**head, "spec": {}, "status": msgspec.to_builtins(found)}
