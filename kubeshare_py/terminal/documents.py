"""What the commands write besides tables: documents for programs, and sentences on stderr.

Documents have exact amounts, and the endpoint's field names.
"""

from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
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


def written(value: object, form: str) -> str:
    """A document, or a view, in the form `json` (indented) or `yaml`; a newline is at the end."""
    if form == "yaml":
        return msgspec.yaml.encode(value).decode()
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def complain(err: Console, text: str, head: str = "Error") -> None:
    """Print a sentence on stderr: errors are red, and a Warning or a Note is yellow."""
    style = "red" if head.startswith("Error") else "yellow"
    err.print(Text(f"{head}: {printable(text)}", style=style), soft_wrap=True)


def _head(view: ClusterView) -> ViewDocument:
    return {"scheduler": view.scheduler, "ready": view.ready, "inventory": view.inventory}


def _plain(value: object) -> ViewDocument:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, Any])
