"""The `inventory` of a configuration: which source tells of cards, and where it is."""

from typing import Annotated

import msgspec
from msgspec import Meta

SOURCES = ("prometheus", "scrape", "annotation", "file")
_SCHEMES = ("http", "https")


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the cards come from: `prometheus`, `scrape` (the collectors themselves), `annotation`
    (of the Nodes, which collectors write) or `file`.

    `cells_file` is KubeShare's topology file, for all sources; "" for none.

    `url` and `selector` are of Prometheus; `namespace` ("" is the Lease's), `pod_selector`, `port`,
    `scheme` and `server_name` of the collectors; `path` of the file. Token and CA are for
    Prometheus or the collectors, whichever is asked.
    """

    source: str = "prometheus"
    url: str = "http://prometheus-k8s.monitoring:9090"
    selector: str = 'job="kubeshare-collector"'
    namespace: str = ""
    pod_selector: str = "app.kubernetes.io/name=kubeshare-collector"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 9004
    scheme: str = "http"
    server_name: str = ""
    path: str = ""
    cells_file: str = ""
    interval_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 5.0
    bearer_token_file: str = ""
    ca_file: str = ""

    def within(self, namespace: str) -> "Inventory":
        """The same for a scheduler in this namespace: collectors are there unless told."""
        return msgspec.structs.replace(self, namespace=self.namespace or namespace)

    def check(self) -> None:
        """Raise ValueError, its text beginning with the field, for settings that cannot be."""
        if self.source not in SOURCES:
            raise ValueError(f"source: must be one of {', '.join(SOURCES)}")
        if self.source == "file" and not self.path:
            raise ValueError("path: must name the file when source is file")
        if self.scheme not in _SCHEMES:
            raise ValueError("scheme: must be http or https")
        if self.source == "scrape" and not self.pod_selector:
            raise ValueError("podSelector: must select the collectors' pods when source is scrape")
