"""AdmissionReviews: an API server's request to a webhook, and the answer.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/ Only the
fields of a pod that a patch depends on are read.
"""

import base64
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from kubeshare_py.domain.printable import printable
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pods.pod_fields import ContainerResources
from kubeshare_py.manifests.shallow_json import decoded

#: The versions of AdmissionReviews; HAMi's registration asks for v1beta1 alone. Of what is here
#: they differ in nothing, but an API server finds no answer in the other version.
VERSION, OLD_VERSION = "admission.k8s.io/v1", "admission.k8s.io/v1beta1"


class _ReviewFields(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of an AdmissionReview or of its pod; other fields are ignored."""


class FieldRef(_ReviewFields, frozen=True):
    """A field of the pod, for the downward API."""

    field_path: str = ""


class ValueFrom(_ReviewFields, frozen=True):
    """The source of a variable's value; only fields of the pod are distinguished."""

    field_ref: FieldRef | None = None


class EnvVar(_ReviewFields, frozen=True):
    """One entry of a container's environment."""

    name: str
    value: str = ""
    value_from: ValueFrom | None = None


class VolumeMount(_ReviewFields, frozen=True):
    """A volume's mount point in a container."""

    mount_path: str


class SecurityContext(_ReviewFields, frozen=True):
    """Whether a container may do all that the node's root may."""

    privileged: bool | None = None


class ContainerFields(_ReviewFields, frozen=True):
    """A container of any kind."""

    name: str = ""
    env: tuple[EnvVar, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    resources: ContainerResources | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class VolumeFields(_ReviewFields, frozen=True):
    """A volume's name."""

    name: str


class SpecFields(_ReviewFields, frozen=True):
    """The parts of a spec that may be patched."""

    scheduler_name: str = ""
    runtime_class_name: str | None = None
    node_name: str = ""
    containers: tuple[ContainerFields, ...] | None = None
    init_containers: tuple[ContainerFields, ...] | None = None
    ephemeral_containers: tuple[ContainerFields, ...] | None = None
    volumes: tuple[VolumeFields, ...] | None = None


class MetadataFields(_ReviewFields, frozen=True):
    """A pod's labels and annotations."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class CreatedPod(_ReviewFields, frozen=True):
    """A pod before it is stored."""

    metadata: MetadataFields = MetadataFields()
    spec: SpecFields = SpecFields()


class Request(_ReviewFields, frozen=True):
    """The request; objects are decoded separately, so that a bad one does not prevent an answer.

    `version` is the review's, in which it is answered.
    """

    uid: str
    version: str = VERSION
    operation: str = ""
    sub_resource: str = ""
    object: Raw = Raw(b"null")
    old_object: Raw = Raw(b"null")


class _AdmissionReview(_ReviewFields, frozen=True):
    request: Request
    api_version: str = VERSION


class Operation(_ReviewFields, frozen=True):
    """One step of a JSON patch; only `add` is ever needed (RFC 6902)."""

    path: str
    value: object
    op: str = "add"


class _AdmissionStatus(msgspec.Struct):
    """https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/"""

    message: str
    reason: str
    code: int


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch_type: str = ""
    patch: str = ""
    warnings: tuple[str, ...] = ()
    status: _AdmissionStatus | None = None


_REVIEW = msgspec.json.Decoder(_AdmissionReview)
_POD = msgspec.json.Decoder(CreatedPod)
_ENCODER = msgspec.json.Encoder()


def read_review(body: bytes) -> Request | None:
    """The request; None if the body is none, and no answer is possible."""
    try:
        review = decoded(_REVIEW, body)
    except UNDECODABLE:
        return None
    version = OLD_VERSION if review.api_version == OLD_VERSION else VERSION
    return msgspec.structs.replace(review.request, version=version)


def read_pod(raw: Raw) -> CreatedPod | str:
    """The pod, or a sentence that says what is wrong with it."""
    try:
        return decoded(_POD, bytes(raw))
    except UNDECODABLE as error:
        return str(error)


def allowed(
    request: Request, patch: Sequence[Operation] = (), warnings: tuple[str, ...] = ()
) -> bytes:
    """The answer that lets the pod through with this patch."""
    response = _Response(uid=request.uid, allowed=True, warnings=tuple(map(printable, warnings)))
    if patch:
        response.patch_type = "JSONPatch"
        response.patch = base64.b64encode(_ENCODER.encode(patch)).decode()
    return _answer(request, response)


def refused(request: Request, message: str) -> bytes:
    """The answer that refuses the pod as invalid."""
    status = _AdmissionStatus(message=printable(message), reason="Invalid", code=422)
    return _answer(request, _Response(uid=request.uid, allowed=False, status=status))


def _answer(request: Request, response: _Response) -> bytes:
    head = {"apiVersion": request.version, "kind": "AdmissionReview"}
    return _ENCODER.encode({**head, "response": response})
