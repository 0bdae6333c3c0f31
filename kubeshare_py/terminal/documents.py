"""The machine-readable forms of the commands' output: exact amounts, the endpoint's field names."""

from typing import Any

import msgspec

from kubeshare_py.views.view import ClusterView, NodeView, PodView, WhyView

ViewDocument = dict[str, Any]


def gpus_document(view: ClusterView, nodes: list[NodeView]) -> ViewDocument:
    """The requested nodes and the source of their cards; `overcommitted` has only theirs."""
    names = {node.name for node in nodes}
    overcommitted = [pair for pair in view.overcommitted if pair[0] in names]
    lists = {"nodes": nodes, "overcommitted": overcommitted}
    return _head(view) | {"source": view.source} | _plain(lists)


def pods_document(view: ClusterView, pods: list[PodView]) -> ViewDocument:
    """The requested pods."""
    return _head(view) | _plain({"pods": pods})


def why_document(why: WhyView) -> ViewDocument:
    """The whole explanation."""
    return _plain(why)


def workload_document(why: WhyView, pods: list[PodView]) -> ViewDocument:
    """The explanation of one pod, with all pods of the workload."""
    return _plain(why) | _plain({"pods": pods})


def as_json(document: ViewDocument) -> str:
    """Indented, without a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def as_yaml(document: ViewDocument) -> str:
    """The same fields in the same order, without a newline at the end."""
    return msgspec.yaml.encode(document).decode().rstrip("\n")


def _head(view: ClusterView) -> ViewDocument:
    return {"scheduler": view.scheduler, "ready": view.ready, "inventory": view.inventory}


def _plain(value: object) -> ViewDocument:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, Any])
