"""Claims, volumes and classes from one line each: `volume v of fast size 5Gi only zone=a`."""

from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]

_STORAGE = "storage.k8s.io/v1"
_SMALL = "1Gi"
_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED = "volume.kubernetes.io/selected-node"


def storage(text: str) -> Json:
    """One object.

    - `class NAME [waits] [by PROVISIONER] [only key=value]`
    - `claim NAME [of CLASS] [on VOLUME] [size 5Gi] [mode ReadWriteOnce] [phase Lost] [to VOLUME]
      [selected NODE] [owned POD]`; `to` names a volume to which the claim is not bound yet
    - `volume NAME [of CLASS] [size 5Gi] [mode ReadWriteOnce] [only key=value[,key=value]]
      [labels key=value[,key=value]] [for CLAIM] [by DRIVER]`
    - `attachment NAME to NODE by DRIVER of VOLUME`, and `limits NODE DRIVER COUNT ...`, a CSINode
    """
    kind, name, *words = text.split()
    if kind == "limits":
        return _limits(name, words)
    return _KINDS[kind](name, _values(words))


def _values(words: list[str]) -> dict[str, str]:
    """`waits` stands alone; every other word has one that follows it."""
    alone = {one: "" for one in words if one == "waits"}
    paired = [one for one in words if one not in alone]
    return alone | dict(zip(paired[::2], paired[1::2], strict=True))


def _class(name: str, given: Mapping[str, str]) -> Json:
    mode = "WaitForFirstConsumer" if "waits" in given else "Immediate"
    made: Json = {
        **{"apiVersion": _STORAGE, "kind": "StorageClass", "metadata": {"name": name}},
        "provisioner": given.get("by", "kubernetes.io/no-provisioner"),
        "volumeBindingMode": mode,
    }
    if "only" in given:
        pairs = _pairs(given["only"]).items()
        expressions = [{"key": key, "values": [value]} for key, value in pairs]
        made["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
    return made


def _claim(name: str, given: Mapping[str, str]) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "uid": name}
    spec: Json = {
        "storageClassName": given.get("of", ""),
        "accessModes": [given.get("mode", "ReadWriteOnce")],
        "resources": {"requests": {"storage": given.get("size", _SMALL)}},
    }
    phase = "Pending"
    if "on" in given:
        metadata["annotations"] = {_BOUND: "yes"}
        phase = "Bound"
    if "selected" in given:
        metadata["annotations"] = {_SELECTED: given["selected"]}
    if "on" in given or "to" in given:
        spec["volumeName"] = given.get("on") or given["to"]
    if "owned" in given:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": given["owned"]}
        owner["uid"] = f"default-{given['owned']}"
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    return {**made, "spec": spec, "status": {"phase": given.get("phase", phase)}}


def _volume(name: str, given: Mapping[str, str]) -> Json:
    spec: Json = {
        "storageClassName": given.get("of", ""),
        "accessModes": [given.get("mode", "ReadWriteOnce")],
        "capacity": {"storage": given.get("size", _SMALL)},
    }
    if "by" in given:
        spec["csi"] = {"driver": given["by"], "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": "/tmp"}
    if "only" in given:
        expressions = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in _pairs(given["only"]).items()
        ]
        terms = [{"matchExpressions": expressions}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if "for" in given:
        spec["claimRef"] = {"name": given["for"], "namespace": "default", "uid": given["for"]}
    metadata = {"name": name, "labels": _pairs(given.get("labels", ""))}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata}
    return {**made, "spec": spec, "status": {"phase": "Available"}}


def _attachment(name: str, given: Mapping[str, str]) -> Json:
    made = {"apiVersion": _STORAGE, "kind": "VolumeAttachment", "metadata": {"name": name}}
    source = {"persistentVolumeName": given["of"]}
    spec = {"attacher": given["by"], "nodeName": given["to"], "source": source}
    return {**made, "spec": spec, "status": {"attached": True}}


def _limits(node: str, words: list[str]) -> Json:
    drivers = [
        {"name": driver, "nodeID": node, "allocatable": {"count": int(count)}}
        for driver, count in zip(words[::2], words[1::2], strict=True)
    ]
    made = {"apiVersion": _STORAGE, "kind": "CSINode", "metadata": {"name": node}}
    return {**made, "spec": {"drivers": drivers}}


def _pairs(text: str) -> dict[str, str]:
    return dict(one.split("=", 1) for one in text.split(",") if one)


_KINDS: Mapping[str, Callable[[str, Mapping[str, str]], Json]] = {
    **{"class": _class, "claim": _claim, "volume": _volume, "attachment": _attachment},
}
