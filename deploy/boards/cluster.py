"""The board of the whole cluster: its cards, what of them is held and used, and what waits."""

from deploy.boards import node
from deploy.boards.grafana import (
    RATE,
    Board,
    Column,
    Graph,
    Number,
    Query,
    Row,
    Table,
    Unit,
    Variable,
)
from deploy.boards.series import JOB, leading, reasons, waiting


def _cards(metric: str) -> str:
    """A metric of the scheduler about each card, once: all replicas say the same."""
    return f'max by (node, uuid, model) ({metric}{{model=~"$model"}})'


def _read(metric: str) -> str:
    """A metric that collectors read of each card that the scheduler knows, with its model."""
    known = f"({_cards('kubeshare_card_healthy')} >= bool 0)"
    return f"{metric} * on (node, uuid) group_left (model) {known}"


def _held(what: str, by: str = "") -> str:
    """The part of `what` of the cards, milli or bytes, that pods hold."""
    held, capacity = (
        f"sum{by} ({_cards(f'kubeshare_card_{word}_{what}')})" for word in ("allocated", "capacity")
    )
    return f"{held} / {capacity}"


_MODELS, _NODES = " by (model)", " by (node)"
_UNHEALTHY = f"{_cards('kubeshare_card_healthy')} == 0"
_PLACED = f'scheduler_schedule_attempts_total{{{JOB}, result="scheduled"}}'

_AT_A_GLANCE = Row(
    "At a glance",
    (
        Number(
            title="Cards",
            description="Cards in the inventory, MIG instances in place of divided cards.",
            unit=Unit.COUNT,
            query=f"count({_cards('kubeshare_card_capacity_milli')} > 0)",
        ),
        Number(
            title="Idle cards",
            description="Healthy cards without pods, of all models.",
            unit=Unit.COUNT,
            query=f"max({leading('kubeshare_idle_cards')})",
        ),
        Number(
            title="Unhealthy cards",
            description="Cards that take no new pods; the boards of their nodes name the faults.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"count({_UNHEALTHY}) or vector(0)",
        ),
        Number(
            title="Share held",
            description="The part of the cards' time that pods hold.",
            unit=Unit.PART,
            query=_held("milli"),
        ),
        Number(
            title="Memory held",
            description="The part of the cards' memory that pods hold.",
            unit=Unit.PART,
            query=_held("bytes"),
        ),
        Number(
            title="Fragmentation",
            description="The part of the free share that is on cards with pods: no whole card.",
            unit=Unit.PART,
            query=f"max({leading('kubeshare_fragmentation_ratio')})",
        ),
        Number(
            title="Pods waiting",
            description="Pods that wait for a place, without gated ones.",
            unit=Unit.COUNT,
            query=waiting(),
        ),
        Number(
            title="Binds",
            description="Pods that are placed in a second.",
            unit=Unit.PER_SECOND,
            query=f"sum(rate({_PLACED}[{RATE}]))",
        ),
    ),
)

_CARDS = Row(
    "Cards",
    (
        Table(
            title="Models",
            description="Each model's cards, and the part of them that pods hold and use.",
            unit=Unit.PART,
            width=14,
            keys={"model": "Model"},
            columns=(
                Column(
                    "Cards",
                    f"count by (model) ({_cards('kubeshare_card_capacity_milli')} > 0)",
                    Unit.COUNT,
                ),
                Column(
                    "Unhealthy",
                    f"sum by (model) ({_cards('kubeshare_card_healthy')} == bool 0)",
                    Unit.COUNT,
                ),
                Column("Pods", f"sum by (model) ({_cards('kubeshare_card_tenants')})", Unit.COUNT),
                Column("Share held", _held("milli", _MODELS)),
                Column("Share used", f"avg by (model) ({_read('kubeshare_gpu_busy_ratio')})"),
                Column("Memory held", _held("bytes", _MODELS)),
            ),
        ),
        Graph(
            title="Cards by model",
            description="How many cards of each model the scheduler knows: a step is a change.",
            unit=Unit.COUNT,
            width=10,
            stacked=True,
            lines=(
                Query(
                    f"count by (model) ({_cards('kubeshare_card_capacity_milli')} > 0)",
                    "{{model}}",
                ),
            ),
        ),
        Graph(
            title="Share held and used",
            description="Much held and little used: pods hold more of the cards than they need.",
            unit=Unit.PART,
            lines=(
                Query(_held("milli"), "held"),
                Query(f"avg({_read('kubeshare_gpu_busy_ratio')})", "used"),
            ),
        ),
        Graph(
            title="Memory held and used",
            description="What the cards have, what pods hold of it, and what is used.",
            unit=Unit.BYTES,
            lines=(
                Query(f"sum({_cards('kubeshare_card_capacity_bytes')})", "all"),
                Query(f"sum({_cards('kubeshare_card_allocated_bytes')})", "held"),
                Query(f"sum({_read('kubeshare_gpu_memory_used_bytes')})", "used"),
            ),
        ),
        Graph(
            title="Share held by model",
            description="Which models are full: a pod that takes any model finds room elsewhere.",
            unit=Unit.PART,
            lines=(Query(_held("milli", _MODELS), "{{model}}"),),
        ),
        Graph(
            title="Fragmentation",
            description="The part of the free share that is on cards with pods. Near 1, pods with "
            "whole cards wait although much is free.",
            unit=Unit.PART,
            bad_from=0.8,
            lines=(Query(f"max({leading('kubeshare_fragmentation_ratio')})", "fragmentation"),),
        ),
        Graph(
            title="Idle and reserved cards",
            description="Healthy cards without pods, and cards kept for pods that wait for long.",
            unit=Unit.COUNT,
            lines=(
                Query(f"max({leading('kubeshare_idle_cards')})", "idle"),
                Query(f"max({leading('kubeshare_reserved_cards')})", "reserved"),
            ),
        ),
        Graph(
            title="Pods on cards",
            description="Pods that hold a card, by model; a pod on two cards counts twice.",
            unit=Unit.COUNT,
            stacked=True,
            lines=(Query(f"sum by (model) ({_cards('kubeshare_card_tenants')})", "{{model}}"),),
        ),
    ),
)

_QUEUE = Row(
    "Waiting pods",
    (
        Graph(
            title="Waiting pods by queue",
            description="Pods wait for their try (active), until a pause is over (backoff), for a "
            "change (unschedulable), for their gates, or for their namespace's turn (outside).",
            unit=Unit.COUNT,
            stacked=True,
            lines=(Query(f"max by (queue) ({leading('scheduler_pending_pods')})", "{{queue}}"),),
        ),
        Graph(
            title="Waiting pods by reason",
            description="Pods that fit nowhere, by the plugin that refuses nodes; a pod counts "
            "once for each plugin.",
            unit=Unit.COUNT,
            lines=(Query(reasons(), "{{plugin}}"),),
        ),
        Graph(
            title="Binds",
            description="Pods that are placed in a second, by profile.",
            unit=Unit.PER_SECOND,
            lines=(Query(f"sum by (profile) (rate({_PLACED}[{RATE}]))", "{{profile}}"),),
        ),
    ),
)

_HEALTH = Row(
    "What is wrong",
    (
        Graph(
            title="Cards held wrongly",
            description="Cards of which pods hold more than all, that an exclusive pod shares, or "
            "that several nodes claim, and pod-manager ports of two pods. All should be 0.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(
                Query("max(kubeshare_overcommitted_cards)", "over-committed"),
                Query("max(kubeshare_unexclusive_cards)", "not exclusive"),
                Query("max(kubeshare_disputed_cards)", "disputed"),
                Query("max(kubeshare_shared_ports)", "shared ports"),
            ),
        ),
        Graph(
            title="Faults of cards",
            description="Cards with a fault, by fault; docs/inventory.md says what ends each.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(
                Query(
                    "count by (fault) (max by (node, uuid, fault) (kubeshare_gpu_fault))",
                    "{{fault}}",
                ),
            ),
        ),
        Graph(
            title="Silent nodes",
            description="Nodes whose collector does not answer; their known cards stay.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(Query("max(kubeshare_silent_nodes)", "nodes"),),
        ),
        Graph(
            title="Pods that nothing holds to their share",
            description="Pods with a share of a card whose isolation does not work there, or does "
            "not limit this part of it.",
            unit=Unit.COUNT,
            lines=(
                Query(
                    "max by (isolation, part) (kubeshare_unheld_pods)", "{{isolation}}: {{part}}"
                ),
            ),
        ),
        Graph(
            title="Placed past the scheduler",
            description="What others did to bound pods, by the reason of the pod's event.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(
                Query(
                    f"max by (reason) (increase(kubeshare_allocation_warnings_total[{RATE}]))",
                    "{{reason}}",
                ),
            ),
        ),
        Graph(
            title="Cards that linger or cannot be read",
            description="Pods deleted by force whose cards are still held, and bound pods whose "
            "allocation cannot be read.",
            unit=Unit.COUNT,
            lines=(
                Query("max(kubeshare_lingering_pods)", "lingering"),
                Query("max(kubeshare_allocation_problems)", "cannot be read"),
            ),
        ),
    ),
)

_NODES_ROW = Row(
    "Nodes",
    (
        Table(
            title="Nodes",
            description="Each node's cards, and the part of them that pods hold and use; its name "
            "leads to its own board.",
            unit=Unit.PART,
            keys={"node": "Node"},
            links={"node": node.UID},
            columns=(
                Column(
                    "Cards",
                    f"count by (node) ({_cards('kubeshare_card_capacity_milli')} > 0)",
                    Unit.COUNT,
                ),
                Column(
                    "Unhealthy",
                    f"sum by (node) ({_cards('kubeshare_card_healthy')} == bool 0)",
                    Unit.COUNT,
                ),
                Column("Pods", f"sum by (node) ({_cards('kubeshare_card_tenants')})", Unit.COUNT),
                Column("Share held", _held("milli", _NODES)),
                Column("Share used", f"avg by (node) ({_read('kubeshare_gpu_busy_ratio')})"),
                Column("Memory held", _held("bytes", _NODES)),
            ),
        ),
    ),
)

BOARD = Board(
    uid="kubeshare-cluster",
    title="KubeShare: cluster",
    description="The cards of the cluster, what of them is held and used, and what waits.",
    variables=(Variable("model", "Model", "kubeshare_card_capacity_milli"),),
    rows=(_AT_A_GLANCE, _CARDS, _QUEUE, _NODES_ROW, _HEALTH),
)
