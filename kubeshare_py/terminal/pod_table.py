"""`kubectl kubeshare pods`: where each pod is, what it asked for, why it waits."""

from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.domain.view import ClusterView, PodView
from kubeshare_py.terminal.amounts import asks_of, is_unclear
from kubeshare_py.terminal.cards import holds, warnings
from kubeshare_py.terminal.grid import Column, Row, grid, joined, printable

STYLES = {"waiting": "yellow", "backoff": "yellow", "held": "magenta", "binding": "cyan"}


def shown_pods(view: ClusterView, namespace: str | None) -> list[PodView]:
    """The pods of one namespace, or all of them, by namespace and name."""
    chosen = [pod for pod in view.pods if namespace is None or pod.namespace == namespace]
    return sorted(chosen, key=lambda pod: (pod.namespace, pod.name, pod.uid))


def pod_table(
    view: ClusterView, pods: Sequence[PodView], width: int | None, *, with_namespace: bool
) -> Text:
    """One row for each of the pods; the reason for waiting beside or below it."""
    cards = {node.name: node.cards for node in view.nodes}
    rows = [
        Row(
            cells=[
                *([pod.namespace] if with_namespace else []),
                pod.name,
                pod.state,
                pod.node,
                holds(pod, cards.get(pod.node, ())),
                "" if is_unclear(pod) else asks_of(pod),
            ],
            style=STYLES.get(pod.state, ""),
            flow=pod.message,
        )
        for pod in pods
    ]
    columns = [
        *([Column(header="NAMESPACE", least=9)] if with_namespace else []),
        Column(header="NAME", least=16),
        Column(header="STATE"),
        Column(header="NODE", least=10),
        Column(header="GPUS", least=5),
        Column(header="ASKED", least=12),
    ]
    if not pods:
        return joined([Text("No pods of the scheduler here."), *_warnings(view)])
    messages = any(pod.message for pod in pods)
    lines = grid(columns, rows, width, flow_header="MESSAGE" if messages else "")
    return joined([*lines, *_warnings(view)])


def _warnings(view: ClusterView) -> list[Text]:
    return [Text(printable(sentence), style="yellow") for sentence in warnings(view)]
