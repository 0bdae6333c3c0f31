r"""Protobuf request bodies, as far as `kubectl create` sends them (kubectl 1.32 and newer).

Envelope: `k8s\0`, then runtime.Unknown{1 typeMeta{1 apiVersion, 2 kind}, 2 raw}. Field numbers are
those of the generated.proto files of k8s.io/api and k8s.io/apimachinery. Letters of the table: `s`
string, `i` integer, `b` boolean, `y` bytes, `q` Quantity, `p` IntOrString, `{x}` map, `[x]` list,
`-` skipped because the server sets it itself, else another message. A body with a field that is
not listed is not decoded at all rather than decoded without it.
"""

import base64
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kubeshare_py.embedded_cluster.protocol.status import Json

_MAGIC = b"k8s\x00"
_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_NEGATIVE = 1 << 63
_MORE = 0x80
_STRING_VALUE = 1
_MESSAGES = {
    "Unknown": "typeMeta:1:TypeMeta raw:2:y contentEncoding:3:s contentType:4:s",
    "TypeMeta": "apiVersion:1:s kind:2:s",
    "Meta": (
        "name:1:s generateName:2:s namespace:3:s selfLink:4:s uid:5:s resourceVersion:6:s "
        "generation:7:- creationTimestamp:8:- labels:11:{s} annotations:12:{s} finalizers:14:[s]"
    ),
    "ConfigMap": "metadata:1:Meta data:2:{s} binaryData:3:{y} immutable:4:b",
    "Namespace": "metadata:1:Meta spec:2:NamespaceSpec status:3:-",
    "NamespaceSpec": "finalizers:1:[s]",
    "ServiceAccount": "metadata:1:Meta automountServiceAccountToken:4:b",
    "Service": "metadata:1:Meta spec:2:ServiceSpec status:3:-",
    "ServiceSpec": (
        "ports:1:[ServicePort] selector:2:{s} clusterIP:3:s type:4:s externalIPs:5:[s] "
        "sessionAffinity:7:s loadBalancerIP:8:s externalName:10:s externalTrafficPolicy:11:s "
        "healthCheckNodePort:12:i publishNotReadyAddresses:13:b clusterIPs:18:[s]"
    ),
    "ServicePort": "name:1:s protocol:2:s port:3:i targetPort:4:p nodePort:5:i appProtocol:6:s",
    "PriorityClass": (
        "metadata:1:Meta value:2:i globalDefault:3:b description:4:s preemptionPolicy:5:s"
    ),
    "Job": "metadata:1:Meta spec:2:JobSpec status:3:-",
    "JobSpec": (
        "parallelism:1:i completions:2:i activeDeadlineSeconds:3:i selector:4:Selector "
        "manualSelector:5:b template:6:PodTemplate backoffLimit:7:i ttlSecondsAfterFinished:8:i "
        "completionMode:9:s suspend:10:b podReplacementPolicy:14:s managedBy:15:s"
    ),
    "Deployment": "metadata:1:Meta spec:2:DeploymentSpec status:3:-",
    "DeploymentSpec": (
        "replicas:1:i selector:2:Selector template:3:PodTemplate strategy:4:DeploymentStrategy "
        "minReadySeconds:5:i revisionHistoryLimit:6:i paused:7:b progressDeadlineSeconds:9:i"
    ),
    "DeploymentStrategy": "type:1:s",
    "PodDisruptionBudget": "metadata:1:Meta spec:2:BudgetSpec status:3:-",
    "BudgetSpec": (
        "minAvailable:1:p selector:2:Selector maxUnavailable:3:p unhealthyPodEvictionPolicy:4:s"
    ),
    "Selector": "matchLabels:1:{s} matchExpressions:2:[Requirement]",
    "Requirement": "key:1:s operator:2:s values:3:[s]",
    "PodTemplate": "metadata:1:Meta spec:2:PodSpec",
    "PodSpec": (
        "containers:2:[Container] restartPolicy:3:s terminationGracePeriodSeconds:4:i "
        "activeDeadlineSeconds:5:i dnsPolicy:6:s nodeSelector:7:{s} serviceAccountName:8:s "
        "serviceAccount:9:s nodeName:10:s hostNetwork:11:b hostPID:12:b hostIPC:13:b hostname:16:s "
        "subdomain:17:s schedulerName:19:s priorityClassName:24:s"
    ),
    "Container": (
        "name:1:s image:2:s command:3:[s] args:4:[s] workingDir:5:s ports:6:[ContainerPort] "
        "env:7:[EnvVar] "
        "resources:8:Resources terminationMessagePath:13:s imagePullPolicy:14:s stdin:16:b "
        "stdinOnce:17:b tty:18:b terminationMessagePolicy:20:s"
    ),
    "ContainerPort": "name:1:s hostPort:2:i containerPort:3:i protocol:4:s hostIP:5:s",
    "EnvVar": "name:1:s value:2:s",
    "Resources": "limits:1:{q} requests:2:{q}",
    "DeleteOptions": (
        "gracePeriodSeconds:1:i preconditions:2:Preconditions orphanDependents:3:b "
        "propagationPolicy:4:s dryRun:5:[s]"
    ),
    "Preconditions": "uid:1:s resourceVersion:2:s",
}


class NotReadable(ValueError):
    """Not protobuf of a known kind and known fields."""


def decode_protobuf(body: bytes) -> Json:
    """The body as JSON would have it; raises NotReadable."""
    if not body.startswith(_MAGIC):
        raise NotReadable("no Kubernetes envelope")
    try:
        envelope = _message("Unknown", body[len(_MAGIC) :])
        kind = envelope.get("typeMeta", {})
        name = kind.get("kind", "")
        if name not in _MESSAGES:
            raise NotReadable(f"unknown kind {name}")
        raw = base64.b64decode(envelope.get("raw", ""))
        return {**kind, **_message(name, raw)}
    except (IndexError, UnicodeDecodeError) as error:
        raise NotReadable(str(error)) from error


@cache
def _fields(name: str) -> dict[int, tuple[str, str]]:
    rows = (part.split(":", 2) for part in _MESSAGES[name].split())
    return {int(number): (field, letter) for field, number, letter in rows}


def _message(name: str, data: bytes) -> Json:
    fields = _fields(name)
    result: Json = {}
    for number, value in _tokens(data):
        if number not in fields:
            if value in (b"", 0):
                continue
            raise NotReadable(f"field {number} of {name}")
        field, letter = fields[number]
        if letter[0] == "[":
            result.setdefault(field, []).append(_value(letter[1:-1], value))
        elif letter[0] == "{":
            result.setdefault(field, {}).update(_entry(letter[1:-1], value))
        elif letter != "-":
            result[field] = _value(letter, value)
    return result


def _entry(letter: str, value: bytes | int) -> Json:
    parts = dict(_tokens(_bytes(value)))
    key = _text(parts.get(1, b""))
    return {key: _value(letter, parts.get(2, b""))}


def _value(letter: str, value: bytes | int) -> Any:
    decode = _SCALARS.get(letter)
    return decode(value) if decode else _message(letter, _bytes(value))


def _tokens(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and raw values of a message; raises IndexError where it is cut short."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == _VARINT:
            number, place = _varint(data, place)
            yield tag >> 3, number
            continue
        if wire == _LENGTH:
            size, place = _varint(data, place)
        elif wire in (_FIXED_64, _FIXED_32):
            size = 8 if wire == _FIXED_64 else 4
        else:
            raise NotReadable(f"wire type {wire}")
        if place + size > len(data):
            raise IndexError("message cut short")
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[place]
        place += 1
        result |= (byte & (_MORE - 1)) << shift
        shift += 7
        if byte < _MORE:
            return result, place


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise NotReadable("a number where bytes belong")
    return value


def _integer(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise NotReadable("bytes where a number belongs")
    return value


def _signed(value: bytes | int) -> int:
    number = _integer(value)
    return number - 2 * _NEGATIVE if number >= _NEGATIVE else number


def _text(value: bytes | int) -> str:
    return _bytes(value).decode()


def _base64(value: bytes | int) -> str:
    return base64.b64encode(_bytes(value)).decode()


def _quantity(value: bytes | int) -> str:
    return _text(dict(_tokens(_bytes(value))).get(1, b""))


def _int_or_string(value: bytes | int) -> int | str:
    parts = dict(_tokens(_bytes(value)))
    is_text = parts.get(1, 0) == _STRING_VALUE
    return _text(parts.get(3, b"")) if is_text else _signed(parts.get(2, 0))


_SCALARS: dict[str, Callable[[bytes | int], Any]] = {
    "i": _signed,
    "b": lambda value: bool(_integer(value)),
    "s": _text,
    "y": _base64,
    "q": _quantity,
    "p": _int_or_string,
}
