"""Cards and pods as objects of the group `state.kubeshare.io`, as `kubectl get -o yaml` shows them.

https://kubernetes.io/docs/reference/using-api/api-concepts/#collections
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeshare_py.manifests.state_group import API_VERSION, GPU, GPUS, GROUP, POD, ROOT, VERSION
from kubeshare_py.manifests.state_table import state_of
from kubeshare_py.views.view import CardView, ClusterView, NodeView, TenantView

Json = dict[str, Any]

_SCHEMA = "io.kubeshare.state.v1.GPU"
_KIND = [{"group": GROUP, "version": VERSION, "kind": GPU}]
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "format": "int64"}
#: The fields of a GPU's status with their types and what they say.
_STATUS: dict[str, tuple[Json, str]] = {
    "node": (_TEXT, "The node that the card is in."),
    "index": (_NUMBER, "The card's index on its node; absent if that is not known."),
    "model": (_TEXT, "The card's model, as its driver names it."),
    "state": (_TEXT, "What keeps new pods off the card, Ready if nothing does."),
    "capacityMilli": (_NUMBER, "What pods may hold of the card, in thousandths of a card."),
    "usedMilli": (_NUMBER, "What pods hold of it, in thousandths of a card."),
    "memoryBytes": (_NUMBER, "What pods may hold of its memory, in bytes."),
    "usedBytes": (_NUMBER, "What pods hold of its memory, in bytes."),
}
_POD_FIELDS: dict[str, tuple[Json, str]] = {
    "namespace": (_TEXT, "The pod's namespace; absent if the reader may not see it."),
    "name": (_TEXT, "The pod's name; absent if the reader may not see it."),
    "milli": (_NUMBER, "The pod's share of the card, in thousandths."),
    "memoryBytes": (_NUMBER, "The pod's part of the card's memory, in bytes."),
}


def card_objects(portion: ClusterView) -> Iterator[Json]:
    """A GPU for each card."""
    for node in portion.nodes:
        for card in node.cards:
            yield card_object(node, card)


def card_object(node: NodeView, card: CardView) -> Json:
    """One card as a GPU; its name is its uuid."""
    status: Json = {
        "node": node.name,
        "model": card.model,
        "state": state_of(node, card),
        "capacityMilli": card.capacity_milli,
        "usedMilli": card.used_milli,
        "memoryBytes": card.memory_bytes,
        "usedBytes": card.used_bytes,
        "pods": [_tenant(one) for one in card.tenants],
    }
    if card.index >= 0:
        status["index"] = card.index
    head = {"kind": GPU, "apiVersion": API_VERSION, "metadata": {"name": card.uuid}}
    return {**head, "status": status}


def pod_objects(portion: ClusterView) -> Iterator[Json]:
    """A PodState for each pod, without the reasons that a single one has."""
    for pod in portion.pods:
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        head = {"kind": POD, "apiVersion": API_VERSION, "metadata": metadata}
        yield {**head, "pod": msgspec.to_builtins(pod)}


def openapi_v3() -> Json:
    """The schema of a GPU, for `kubectl explain gpus`."""
    pod = {"type": "object", "properties": _properties(_POD_FIELDS)}
    pods = {"type": "array", "items": pod, "description": "The pods that hold part of the card."}
    status = {
        "type": "object",
        "description": "What the scheduler knows of the card now.",
        "properties": {**_properties(_STATUS), "pods": pods},
    }
    metadata = {"type": "object", "description": "Its name is the card's uuid."}
    schema = {
        "type": "object",
        "description": "GPU is a card or MIG instance as the scheduler knows it; it is read-only.",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": metadata,
            "status": status,
        },
        "x-kubernetes-group-version-kind": _KIND,
    }
    answer = {"description": "OK", "content": {"application/json": {"schema": _reference()}}}
    operation = {
        "operationId": "listGPU",
        "responses": {"200": answer},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": _KIND[0],
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": GROUP, "version": VERSION},
        "paths": {f"{ROOT}/{GPUS}": {"get": operation}},
        "components": {"schemas": {_SCHEMA: schema}},
    }


def _reference() -> Json:
    return {"$ref": f"#/components/schemas/{_SCHEMA}"}


def _properties(fields: dict[str, tuple[Json, str]]) -> Json:
    return {name: {**kind, "description": text} for name, (kind, text) in fields.items()}


def _tenant(one: TenantView) -> Json:
    named = {"namespace": one.namespace, "name": one.name} if one.name else {}
    return {**named, "milli": one.milli, "memoryBytes": one.memory_bytes}
