"""The board of one node, or some: what of each card is held and used, and what is wrong with it."""

from deploy.boards.grafana import (
    RANGE,
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

UID = "kubeshare-node"
_OF_CARD = "{{node}} {{uuid}}"
_COLLECTOR = 'job="kubeshare-collector", node=~"$node"'


def _known(metric: str) -> str:
    """A metric of the scheduler about each card, once: all replicas say the same."""
    return f'max by (node, uuid, model) ({metric}{{node=~"$node"}})'


def _read(metric: str) -> str:
    """A metric that the collector reads of each card."""
    return f'max by (node, uuid) ({metric}{{node=~"$node"}})'


def _errors(span: str) -> str:
    """Errors that the driver reported within a span of time."""
    return f'increase(kubeshare_gpu_driver_errors_total{{node=~"$node"}}[{span}])'


_CAPACITY = f"({_known('kubeshare_card_capacity_milli')} > 0)"
_SHARE_HELD = f"{_known('kubeshare_card_allocated_milli')} / {_CAPACITY}"

_AT_A_GLANCE = Row(
    "At a glance",
    (
        Number(
            title="Cards",
            description="Cards that the scheduler knows, MIG instances in place of divided cards.",
            unit=Unit.COUNT,
            query=f"count({_CAPACITY})",
        ),
        Number(
            title="Unhealthy cards",
            description="Cards that take no new pods.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"sum({_known('kubeshare_card_healthy')} == bool 0)",
        ),
        Number(
            title="Pods",
            description="Pods on the cards; a pod on two cards counts twice.",
            unit=Unit.COUNT,
            query=f"sum({_known('kubeshare_card_tenants')})",
        ),
        Number(
            title="Share held",
            description="The part of the cards' time that pods hold.",
            unit=Unit.PART,
            query=f"sum({_known('kubeshare_card_allocated_milli')}) / sum({_CAPACITY})",
        ),
        Number(
            title="Share used",
            description="The part of the time in which kernels ran, over all cards.",
            unit=Unit.PART,
            query=f"avg({_read('kubeshare_gpu_busy_ratio')})",
        ),
        Number(
            title="Memory held",
            description="Memory of the cards that pods hold.",
            unit=Unit.BYTES,
            query=f"sum({_known('kubeshare_card_allocated_bytes')})",
        ),
        Number(
            title="Memory used",
            description="Memory of the cards that is in use, with what the driver keeps.",
            unit=Unit.BYTES,
            query=f"sum({_read('kubeshare_gpu_memory_used_bytes')})",
        ),
        Number(
            title="Errors",
            description="Errors that the driver reported in the time that is shown.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"sum({_errors(RANGE)}) or vector(0)",
        ),
    ),
)

_CARDS = Row(
    "Cards",
    (
        Table(
            title="Cards",
            description="What pods hold of each card, what is used of it, and whether it takes "
            "new pods (1) or not (0).",
            unit=Unit.COUNT,
            keys={"node": "Node", "uuid": "Card", "model": "Model"},
            columns=(
                Column("Pods", _known("kubeshare_card_tenants")),
                Column("Share held", _SHARE_HELD, Unit.PART),
                Column("Share used", _read("kubeshare_gpu_busy_ratio"), Unit.PART),
                Column("Memory", _known("kubeshare_card_capacity_bytes"), Unit.BYTES),
                Column("Memory held", _known("kubeshare_card_allocated_bytes"), Unit.BYTES),
                Column("Memory used", _read("kubeshare_gpu_memory_used_bytes"), Unit.BYTES),
                Column("Takes pods", _known("kubeshare_card_healthy")),
                Column("Temperature", _read("kubeshare_gpu_temperature_celsius"), Unit.CELSIUS),
                Column("Power", _read("kubeshare_gpu_power_watts"), Unit.WATTS),
            ),
        ),
        Graph(
            title="Share held",
            description="The part of each card's time that pods hold.",
            unit=Unit.PART,
            width=12,
            lines=(Query(_SHARE_HELD, _OF_CARD),),
        ),
        Graph(
            title="Share used",
            description="The part of the time in which a kernel ran on each card. Much less than "
            "is held: the pods need less than they asked for.",
            unit=Unit.PART,
            width=12,
            lines=(Query(_read("kubeshare_gpu_busy_ratio"), _OF_CARD),),
        ),
        Graph(
            title="Memory held",
            description="The memory that pods hold of each card.",
            unit=Unit.BYTES,
            width=12,
            lines=(Query(_known("kubeshare_card_allocated_bytes"), _OF_CARD),),
        ),
        Graph(
            title="Memory used",
            description="The memory that is in use on each card. More than is held: a pod takes "
            "more than its share, or something else runs there.",
            unit=Unit.BYTES,
            width=12,
            lines=(Query(_read("kubeshare_gpu_memory_used_bytes"), _OF_CARD),),
        ),
        Graph(
            title="Pods on each card",
            description="How many pods hold a part of each card.",
            unit=Unit.COUNT,
            lines=(Query(_known("kubeshare_card_tenants"), _OF_CARD),),
        ),
        Graph(
            title="Temperature",
            description="The temperature of each card.",
            unit=Unit.CELSIUS,
            lines=(Query(_read("kubeshare_gpu_temperature_celsius"), _OF_CARD),),
        ),
        Graph(
            title="Power",
            description="The power that each card draws.",
            unit=Unit.WATTS,
            lines=(Query(_read("kubeshare_gpu_power_watts"), _OF_CARD),),
        ),
    ),
)

_HEALTH = Row(
    "Health",
    (
        Graph(
            title="Faults",
            description="What is wrong with cards now; docs/inventory.md says what ends a fault.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(
                Query(
                    'max by (node, uuid, fault) (kubeshare_gpu_fault{node=~"$node"})',
                    "{{node}} {{uuid}}: {{fault}}",
                ),
            ),
        ),
        Graph(
            title="Errors of the driver",
            description="XIDs and other errors that the driver reported, by code.",
            unit=Unit.COUNT,
            bad_from=1,
            lines=(
                Query(
                    f"sum by (node, uuid, code) ({_errors(RATE)})", "{{node}} {{uuid}}: {{code}}"
                ),
            ),
        ),
        Graph(
            title="Errors of memory",
            description="ECC errors since the last reset; a card with uncorrected ones is to be "
            "reset or replaced.",
            unit=Unit.COUNT,
            lines=(
                Query(
                    'max by (node, uuid, kind) (kubeshare_gpu_memory_errors{node=~"$node"})',
                    "{{node}} {{uuid}}: {{kind}}",
                ),
            ),
        ),
        Graph(
            title="Collectors",
            description="1 while Prometheus can scrape the node's collector, 0 while it cannot.",
            unit=Unit.COUNT,
            lines=(Query(f"max by (node) (up{{{_COLLECTOR}}})", "{{node}}"),),
        ),
        Graph(
            title="Age of the readings",
            description="How long ago the driver last answered the collector.",
            unit=Unit.SECONDS,
            bad_from=120,
            lines=(
                Query(
                    'max by (node) (kubeshare_collector_reading_age_seconds{node=~"$node"})',
                    "{{node}}",
                ),
            ),
        ),
        Table(
            title="Drivers",
            description="The version of each node's driver; empty where the collector finds none.",
            unit=Unit.COUNT,
            width=8,
            keys={"node": "Node", "version": "Driver"},
            columns=(
                Column(
                    "Cards",
                    'max by (node) (kubeshare_collector_cards{node=~"$node"}) '
                    "* on (node) group_right () max by (node, version) "
                    '(kubeshare_collector_driver_info{node=~"$node"})',
                ),
            ),
        ),
    ),
)

BOARD = Board(
    uid=UID,
    title="KubeShare: node",
    description="The cards of a node: what pods hold of each, what is used, and what is wrong.",
    variables=(Variable("node", "Node", "kubeshare_card_capacity_milli"),),
    rows=(_AT_A_GLANCE, _CARDS, _HEALTH),
)
