"""The board of one namespace, or some: which cards its pods hold, and what is used of them.

What single pods hold is in HAMi's metrics of the scheduler (the chart's value `hamiMetrics`), what
their containers use in those of node agents (`nodeAgent.hamiCore.metrics`).
"""

from deploy.boards import node
from deploy.boards.grafana import Board, Column, Graph, Number, Query, Row, Table, Unit, Variable
from deploy.boards.series import JOB, leading, reasons, waiting

_OUTSIDE = f'{JOB}, queue="outside"'
_TEAM = 'namespace=~"$namespace"'
_BY_TEAM = "sum by (namespace)"
#: HAMi counts a card's time in percent.
_WHOLE = 100


def _held(metric: str) -> str:
    """A metric about what each pod holds of each card, once: all replicas say the same."""
    return f"max by (namespace, pod, node, device_uuid) ({metric}{{{_TEAM}}})"


_SHARES = f"{_held('hami_vgpu_core_allocated_ratio')} / {_WHOLE}"
_BYTES = _held("hami_vgpu_memory_allocated_bytes")
#: Node and uuid of the cards on which the namespace has pods, as collectors call them.
_ITS_CARDS = (
    "max by (node, uuid) (label_replace("
    f'hami_vgpu_core_allocated_ratio{{{_TEAM}}}, "uuid", "$1", "device_uuid", "(.*)"))'
)


def _of_its_cards(metric: str) -> str:
    """What collectors read of these cards."""
    return f"{metric} and on (node, uuid) {_ITS_CARDS}"


_AT_A_GLANCE = Row(
    "At a glance",
    (
        Number(
            title="Pods with cards",
            description="Pods of the namespace that hold a card or a part of one.",
            unit=Unit.COUNT,
            query=f"count(count by (namespace, pod) ({_BYTES}))",
        ),
        Number(
            title="Cards held",
            description="What these pods hold together, in whole cards.",
            unit=Unit.COUNT,
            query=f"sum({_SHARES})",
        ),
        Number(
            title="Cards with its pods",
            description="Cards on which the namespace has pods, be they its own or shared.",
            unit=Unit.COUNT,
            query=f"count({_ITS_CARDS})",
        ),
        Number(
            title="Memory held",
            description="What these pods hold of the cards' memory.",
            unit=Unit.BYTES,
            query=f"sum({_BYTES})",
        ),
        Number(
            title="Part of the cluster",
            description="The part of all cards' time that these pods hold.",
            unit=Unit.PART,
            query=f"sum({_held('hami_vgpu_core_allocated_ratio')}) * 10 "
            "/ sum(max by (node, uuid) (kubeshare_card_capacity_milli))",
        ),
        Number(
            title="Busy",
            description="The part of the time in which kernels ran on the cards with its pods, "
            "those of other namespaces on the same cards included.",
            unit=Unit.PART,
            query=f"avg({_of_its_cards('kubeshare_gpu_busy_ratio')})",
        ),
        Number(
            title="Waiting, all teams",
            description="Pods of all namespaces that wait, because no metric says whose they are; "
            "kubectl kubeshare pods --namespace lists those of one.",
            unit=Unit.COUNT,
            query=waiting(),
        ),
        Number(
            title="Beyond their turn",
            description="Pods outside of the queue, because their namespace has as many waiting as "
            "it may; of all namespaces.",
            unit=Unit.COUNT,
            query=f"max({leading('scheduler_pending_pods', _OUTSIDE)})",
        ),
    ),
)

_HELD = Row(
    "Held",
    (
        Graph(
            title="Cards held",
            description="What the pods of each namespace hold together, in whole cards.",
            unit=Unit.COUNT,
            width=12,
            stacked=True,
            lines=(Query(f"{_BY_TEAM} ({_SHARES})", "{{namespace}}"),),
        ),
        Graph(
            title="Memory held",
            description="What the pods of each namespace hold of the cards' memory.",
            unit=Unit.BYTES,
            width=12,
            stacked=True,
            lines=(Query(f"{_BY_TEAM} ({_BYTES})", "{{namespace}}"),),
        ),
        Table(
            title="Pods",
            description="What each pod holds of each of its cards, and what runs there: kernels of "
            "other pods on the same card included.",
            unit=Unit.PART,
            keys={"namespace": "Namespace", "pod": "Pod", "node": "Node", "device_uuid": "Card"},
            links={"node": node.UID},
            columns=(
                Column("Share held", _SHARES),
                Column("Memory held", _BYTES, Unit.BYTES),
                Column(
                    "Busy",
                    f"{_held('hami_vgpu_core_allocated_ratio')} * 0 + on (node, device_uuid) "
                    "group_left () max by (node, device_uuid) (label_replace("
                    'kubeshare_gpu_busy_ratio, "device_uuid", "$1", "uuid", "(.*)"))',
                ),
            ),
        ),
    ),
)

_USED = Row(
    "Used against held",
    (
        Graph(
            title="Cards with its pods",
            description="The part of the cards' time that the namespace holds on its cards, and "
            "that in which kernels ran there, those of other namespaces included.",
            unit=Unit.PART,
            lines=(
                Query(f"sum({_SHARES}) / count({_ITS_CARDS})", "held"),
                Query(f"avg({_of_its_cards('kubeshare_gpu_busy_ratio')})", "busy"),
            ),
        ),
        Graph(
            title="Memory of its containers",
            description="What pods hold, and what their containers use: of those with HAMi-core, "
            "where node agents export it.",
            unit=Unit.BYTES,
            lines=(
                Query(f"sum({_BYTES})", "held"),
                Query(
                    "sum(max by (namespace, pod, container, device_uuid) "
                    f"(hami_vgpu_memory_used_bytes{{{_TEAM}}}))",
                    "used",
                ),
            ),
        ),
        Graph(
            title="Time of its containers",
            description="What pods hold of cards' time, and what their containers use, in whole "
            "cards: of those with HAMi-core, where node agents export it.",
            unit=Unit.COUNT,
            lines=(
                Query(f"sum({_SHARES})", "held"),
                Query(
                    "sum(max by (namespace, pod, container, device_uuid) "
                    f"(hami_container_device_utilization_ratio{{{_TEAM}}})) / {_WHOLE}",
                    "used",
                ),
            ),
        ),
    ),
)

_QUOTAS = Row(
    "Quotas and queue",
    (
        Table(
            title="Quotas",
            description="What each namespace holds of its ResourceQuotas of HAMi's resources, in "
            "their own units.",
            unit=Unit.COUNT,
            width=12,
            keys={"namespace": "Namespace", "quota_name": "Resource"},
            columns=(
                Column(
                    "Used",
                    f"max by (namespace, quota_name) (hami_resource_quota_used{{{_TEAM}}})",
                ),
                Column(
                    "Limit",
                    f"max by (namespace, quota_name) (hami_resource_quota_limit{{{_TEAM}}})",
                ),
            ),
        ),
        Graph(
            title="Why pods wait, all teams",
            description="Pods of all namespaces that fit nowhere, by the plugin that refuses.",
            unit=Unit.COUNT,
            width=12,
            lines=(Query(reasons(), "{{plugin}}"),),
        ),
    ),
)

BOARD = Board(
    uid="kubeshare-team",
    title="KubeShare: team",
    description="The cards that the pods of a namespace hold, and what is used of them.",
    variables=(Variable("namespace", "Namespace", "hami_vgpu_core_allocated_ratio"),),
    rows=(_AT_A_GLANCE, _HELD, _USED, _QUOTAS),
)
