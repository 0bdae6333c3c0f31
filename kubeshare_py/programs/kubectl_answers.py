"""The answers of `kubectl kubeshare gpus` and `pods`: from views to what is shown."""

from collections.abc import Iterable
from functools import partial

from rich.text import Text

from kubeshare_py.edges.cli.pod_lookup import matching_nodes, matching_pods
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import NotFound
from kubeshare_py.programs.kubectl_question import Question, Shown
from kubeshare_py.programs.kubectl_unknown_pods import unknown_pod
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.cards import of_model, sorted_nodes, warnings
from kubeshare_py.terminal.gpu_details import pod_details
from kubeshare_py.terminal.gpu_tables import card_table, shown_nodes, summary
from kubeshare_py.terminal.grid import joined
from kubeshare_py.terminal.pod_table import pod_table, shown_pods
from kubeshare_py.terminal.table import Table, table_lines
from kubeshare_py.terminal.topology_tables import topology_tables
from kubeshare_py.views.view import NodeView


def gpus(question: Question, client: StateClient, _now: float) -> Shown:
    """The cards of all nodes, or of those with the names or labels.

    Raises StateError, and NotFound for an unknown node.
    """
    view = client.cards(topology=question.topology)
    known = {node.name for node in view.nodes}
    for name in question.names:
        if name not in known:
            raise NotFound(f'nodes "{name}" not found among those that the scheduler knows')
    nodes = chosen_nodes(question, client, shown_nodes(view, question.names))
    table = None
    if question.topology:
        text = partial(topology_tables, nodes)
    elif question.details:
        text = partial(pod_details, view, nodes)
    elif question.summary:
        text = partial(summary, view, nodes)
    else:
        table = card_table(view, nodes, wide=question.wide)
        text = partial(_lines, question, table)
    has_cards = any(node.cards for node in nodes)
    return Shown(
        text=text,
        table=table,
        document=partial(documents.gpus_document, view, nodes),
        names=[f"gpu/{card.uuid}" for node in nodes for card in node.cards],
        warnings=warnings(view),
        empty="" if has_cards or table is None else "No GPUs found.",
    )


def chosen_nodes(
    question: Question, client: StateClient, nodes: Iterable[NodeView]
) -> list[NodeView]:
    """Those of the nodes with the labels and the model of the question, in its order.

    Raises StateError.
    """
    if question.selector:
        found = matching_nodes(client.api, question.selector)
        nodes = [node for node in nodes if node.name in found]
    if question.model:
        nodes = of_model(nodes, question.model)
    return sorted_nodes(nodes, question.sort)


def pods(question: Question, client: StateClient, now: float) -> Shown:
    """Pods of the namespace or of all, or those with the names or labels. Raises StateError."""
    namespace = None if question.all_namespaces else client.api.namespace()
    view = client.pods(namespace)
    labelled = None
    if question.selector:
        labelled = matching_pods(client.api, namespace, question.selector)
    chosen = shown_pods(view, question.names, labelled)
    for name in question.names:
        if namespace is not None and name not in {pod.name for pod in chosen}:
            raise unknown_pod(client, namespace, name, NotFound(f'pods "{name}" not found'))
    table = pod_table(chosen, now, with_namespace=namespace is None, wide=question.wide)
    where = "" if namespace is None else f" in {namespace} namespace"
    return Shown(
        text=partial(_lines, question, table),
        table=table,
        document=partial(documents.pods_document, view, chosen),
        names=[f"pod/{pod.name}" for pod in chosen],
        warnings=warnings(view),
        empty="" if chosen else f"No pods of the scheduler found{where}.",
    )


def _lines(question: Question, table: Table, width: int | None) -> Text:
    limit = None if question.wide else width
    return joined(table_lines(table, limit, headers=not question.no_headers))
