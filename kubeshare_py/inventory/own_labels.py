"""A collector's own labels on a series, without those of the scrape configuration."""

from collections.abc import Mapping

EXPORTED = "exported_"


def own_label(labels: Mapping[str, str], name: str) -> str:
    """The collector's value of a label; "" if it has none.

    Without `honor_labels`, a label that the scrape configuration sets too is renamed:
    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config.
    """
    return labels.get(EXPORTED + name) or labels.get(name, "")
