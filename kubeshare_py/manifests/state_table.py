"""The state as tables, for `kubectl get gpus.state.kubeshare.io` and `pods.state.kubeshare.io`.

https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.printable import printable
from kubeshare_py.views.holding import ContainerView
from kubeshare_py.views.view import CardView, ClusterView, NodeView, PodView

Json = dict[str, Any]

_META = "meta.k8s.io"
_GIB = 2**30
_CARD_COLUMNS = (
    ("Node", 0),
    ("Index", 0),
    ("Model", 0),
    ("Used", 0),
    ("Memory", 0),
    ("State", 0),
    ("Pods", 0),
    ("Name", 1),
)
_POD_COLUMNS = (("Name", 0), ("State", 0), ("Node", 0), ("GPUs", 0), ("Message", 1), ("Cards", 1))


def wants_table(accept: str) -> bool:
    """Whether a client prefers a table."""
    first = accept.split(",", maxsplit=1)[0]
    media, *options = (piece.strip() for piece in first.split(";"))
    given = dict(option.partition("=")[::2] for option in options)
    wanted = {"as": "Table", "g": _META, "v": "v1"}
    return media == "application/json" and given.items() >= wanted.items()


def table(rows: list[Json], *, of_cards: bool) -> Json:
    """The table of these rows."""
    columns = _CARD_COLUMNS if of_cards else _POD_COLUMNS
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": priority,
        }
        for name, priority in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": f"{_META}/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def card_rows(portion: ClusterView) -> Iterator[Json]:
    """A row for each card."""
    for node in portion.nodes:
        for card in node.cards:
            yield _row(_card_cells(node, card), card.uuid)


def pod_rows(portion: ClusterView) -> Iterator[Json]:
    """A row for each pod."""
    for pod in portion.pods:
        yield pod_row(pod)


def pod_row(pod: PodView) -> Json:
    """The row of one pod."""
    containers = [one for one in pod.containers if one.count]
    claims: Sequence[PodView | ContainerView] = containers or [pod]
    asked = " + ".join(f"{one.count} x {_share(one.milli)}" if one.count else "0" for one in claims)
    cells = [pod.name, pod.state, pod.node, asked, pod.message, ",".join(pod.cards)]
    return _row(cells, pod.name, pod.namespace)


def _card_cells(node: NodeView, card: CardView) -> list[str]:
    named = [f"{one.namespace}/{one.name}" for one in card.tenants if one.name]
    hidden = len(card.tenants) - len(named)
    pods = named + ([f"{hidden} more"] if hidden else [])
    return [
        node.name,
        str(card.index) if card.index >= 0 else "",
        card.model,
        _share(card.used_milli),
        f"{card.used_bytes / _GIB:.0f}/{card.memory_bytes / _GIB:.0f}GiB",
        state_of(node, card),
        ",".join(pods),
        card.uuid,
    ]


def state_of(node: NodeView, card: CardView) -> str:
    """What keeps new pods off the card, `Ready` if nothing does; as kubectl shows Nodes."""
    if not card.known:
        return "Unknown"
    words = []
    if not card.healthy:
        words.append("ClaimedTwice" if card.claimed_by else "Unhealthy")
    if card.cordoned:
        words.append("Cordoned")
    if node.not_ready:
        words.append("NotReady")
    if node.unschedulable:
        words.append("SchedulingDisabled")
    if node.silent:
        words.append("Silent")
    return ",".join(words) or "Ready"


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:.3g}"


def _row(cells: list[str], name: str, namespace: str = "") -> Json:
    metadata: Json = {"name": name, "creationTimestamp": None}
    if namespace:
        metadata["namespace"] = namespace
    shown = {"kind": "PartialObjectMetadata", "apiVersion": f"{_META}/v1", "metadata": metadata}
    return {"cells": [printable(cell) for cell in cells], "object": shown}
