"""What a collector itself wrote on a series, whatever the scrape configuration added to it."""

from collections.abc import Mapping

EXPORTED = "exported_"


def own_label(labels: Mapping[str, str], name: str) -> str:
    """The collector's value of a label, "" without one.

    Without `honor_labels` a label that the scrape configuration gives too is renamed:
    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config.
    """
    return labels.get(EXPORTED + name) or labels.get(name, "")
