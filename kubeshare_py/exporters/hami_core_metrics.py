"""The metrics of the node agent's part for HAMi-core."""

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values

_NODE = ("node",)
HAMI_CORE = (
    Metric(
        "kubeshare_hami_core_regions",
        "gauge",
        "Containers whose shared region of HAMi-core can be read.",
        _NODE,
    ),
    Metric(
        "kubeshare_hami_core_unreadable_regions",
        "gauge",
        "Those whose region cannot be read; the log says which and why.",
        _NODE,
    ),
    Metric(
        "kubeshare_hami_core_folders_not_removed",
        "gauge",
        "Folders that containers left and that cannot be removed; the log says which and why.",
        _NODE,
    ),
)


def hami_core_values(node: NodeName, readable: int, unreadable: int, stay: int) -> Values:
    """The values by metric, in their order."""
    numbers = (readable, unreadable, stay)
    return {
        metric.name: {(node,): number} for metric, number in zip(HAMI_CORE, numbers, strict=True)
    }
