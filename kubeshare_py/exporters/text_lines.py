"""Series as lines of text, where there are too many for prometheus-client: that takes 8 us a line.

Gauges look the same in the text format and in OpenMetrics.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Mapping, Sequence

from kubeshare_py.exporters.metric import Metric

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def label_text(names: Sequence[str], values: Iterable[str]) -> str:
    """Labels between their braces, in this order."""
    pairs = zip(names, values, strict=True)
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{inside}}}"


def head(metric: Metric, kind: str = "") -> str:
    """What comes before a metric's series; `kind` is another one than its own."""
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {kind or metric.kind}\n"


def gauges(
    catalogue: Iterable[Metric], values: Mapping[str, Mapping[tuple[str, ...], float]]
) -> str:
    """All series of the metrics that have any."""
    found: list[str] = []
    for metric in catalogue:
        if series := values.get(metric.name):
            found.append(head(metric))
            found += [
                f"{metric.name}{label_text(metric.labels, labels)} {value}\n"
                for labels, value in series.items()
            ]
    return "".join(found)
