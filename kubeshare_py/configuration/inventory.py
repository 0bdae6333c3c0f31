"""The `inventory` of a configuration: the source of cards, and where it is."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubeshare_py.configuration.card_scaling import CardScalingRule
from kubeshare_py.configuration.settings_rules import (
    label_problem,
    label_selector_problem,
    url_problem,
)
from kubeshare_py.domain.card_scaling import CardScaling


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The source of cards: `prometheus`, `scrape`, `annotation`, `hami` or `file`.

    `scrape` asks the collectors themselves, and `annotation` reads the Nodes, on which collectors
    write; `hami` reads what HAMi's device plugins write there, of which the one for NVIDIA
    advertises `plugin_resource`; with `node_lock` pods are sent to such a plugin one at a time.
    `cells_file` is KubeShare's topology file, for all sources; "" for none. `url` and `selector`
    are Prometheus'; `namespace` ("" is the Lease's), `pod_selector`, `port`, `scheme` and
    `server_name` the collectors'; `path` is the file's. The token and the CA are for Prometheus or
    the collectors, whichever is asked. Of the rules in `scaling`, the first that covers a card
    counts. `unhealthy_config_maps`: gpushare's ConfigMaps say which cards take no new pods.
    """

    source: Literal["prometheus", "scrape", "annotation", "hami", "file"] = "prometheus"
    url: str = "http://prometheus-k8s.monitoring:9090"
    selector: str = 'job="kubeshare-collector"'
    namespace: str = ""
    pod_selector: str = "app.kubernetes.io/name=kubeshare-collector"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 9004
    scheme: Literal["http", "https"] = "http"
    server_name: str = ""
    path: str = ""
    plugin_resource: Annotated[str, Meta(min_length=1, max_length=317)] = "nvidia.com/gpu"
    node_lock: bool = True
    cells_file: str = ""
    interval_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 5.0
    bearer_token_file: str = ""
    ca_file: str = ""
    scaling: tuple[CardScalingRule, ...] = ()
    unhealthy_config_maps: bool = False

    def within(self, namespace: str) -> "Inventory":
        """The inventory of a scheduler in this namespace, where collectors are by default."""
        return msgspec.structs.replace(self, namespace=self.namespace or namespace)

    @property
    def locks_nodes(self) -> bool:
        """Whether pods are sent to device plugins of HAMi one at a time."""
        return self.source == "hami" and self.node_lock

    def check(self) -> None:
        """Raises ValueError, whose text begins with the field, for unusable settings."""
        if self.source == "file" and not self.path:
            raise ValueError("path: must name the file when source is file")
        if problem := url_problem(self.url):
            raise ValueError(f"url: {problem}")
        if self.source == "scrape" and not self.pod_selector:
            raise ValueError("podSelector: must select the collectors' pods when source is scrape")
        if self.pod_selector and (problem := label_selector_problem(self.pod_selector)):
            raise ValueError(f"podSelector: {problem}")
        if self.namespace and (problem := label_problem(self.namespace)):
            raise ValueError(f"namespace: {problem}")
        self.rules()

    def rules(self) -> tuple[CardScaling, ...]:
        """The rules that scale cards; raises ValueError, whose text begins with the field."""
        found = []
        for number, entry in enumerate(self.scaling):
            try:
                found.append(entry.rule())
            except ValueError as error:
                raise ValueError(f"scaling[{number}].{error}") from error
        return tuple(found)
