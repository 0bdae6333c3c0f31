"""The `inventory` of a configuration: the source of cards, and where it is."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubeshare_py.configuration.fields import label_problem, label_selector_problem, url_problem
from kubeshare_py.domain.gpu import CardScaling, name_part, thousandths
from kubeshare_py.domain.quantity import CARD_TENANTS

# The `inventory.scaling` of a configuration: cards that give more or less than they have.


#: As `bounds.SCALING`, which is in thousandths.
_Factor = Annotated[float, Meta(ge=0.001, le=100)]


class CardScalingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How much pods may hold of the cards of some nodes and models, and how many pods may.

    `nodes` are shell patterns of names, `models` parts of model names; empty for all. A
    `split_count` of 0 is no limit. `memory_scaling` and `cores_scaling` multiply a card's memory
    and share.
    """

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    split_count: Annotated[int, Meta(ge=CARD_TENANTS.least, le=CARD_TENANTS.most)] = 0
    memory_scaling: _Factor = 1.0
    cores_scaling: _Factor = 1.0

    def rule(self) -> CardScaling:
        """The rule; raises ValueError, whose text begins with the field."""
        models = []
        for name in self.models:
            part = name_part(name)
            if part is None:
                raise ValueError(f"models: {name!r} is not the name of a model or words of it")
            models.append(part)
        return CardScaling(
            nodes=self.nodes,
            models=tuple(models),
            max_tenants=self.split_count,
            memory_scaling=_thousandths("memoryScaling", self.memory_scaling),
            cores_scaling=_thousandths("coresScaling", self.cores_scaling),
        )


def _thousandths(field: str, factor: float) -> int:
    try:
        return thousandths(factor)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


#: The Prometheus of the source `prometheus` where no URL is configured.
PROMETHEUS_URL = "http://prometheus-k8s.monitoring:9090"


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The source of cards: `auto`, `prometheus`, `scrape`, `annotation`, `hami` or `file`.

    `scrape` asks the collectors themselves, and `auto` does until a Prometheus names all their
    cards; `annotation` reads the Nodes, on which collectors write; `hami` reads what HAMi's device
    plugins write there, of which the one for NVIDIA advertises `plugin_resource`; with `node_lock`
    pods are sent to such a plugin one at a time. `cells_file` is KubeShare's topology file, for all
    sources; "" for none. `url` and `selector` are Prometheus': without a `url`, `auto` looks for
    the Prometheus Operator's, and `prometheus` asks PROMETHEUS_URL. `namespace` ("" is the
    Lease's), `pod_selector`, `port`, `scheme` and `server_name` are the collectors'; `path` is the
    file's. The token and the CA are for Prometheus or the collectors, whichever is asked, but with
    `auto` only the Prometheus at `url` gets the token. Of the rules in `scaling`, the first that
    covers a card counts. `unhealthy_config_maps`: gpushare's ConfigMaps say which cards take no new
    pods.
    """

    source: Literal["auto", "prometheus", "scrape", "annotation", "hami", "file"] = "auto"
    url: str = ""
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
    def prometheus_url(self) -> str:
        """The Prometheus that the source `prometheus` asks."""
        return self.url or PROMETHEUS_URL

    @property
    def locks_nodes(self) -> bool:
        """Whether pods are sent to device plugins of HAMi one at a time."""
        return self.source == "hami" and self.node_lock

    def check(self) -> None:
        """Raises ValueError, whose text begins with the field, for unusable settings."""
        if self.source == "file" and not self.path:
            raise ValueError("path: must name the file when source is file")
        if self.url and (problem := url_problem(self.url)):
            raise ValueError(f"url: {problem}")
        if self.source in ("auto", "scrape") and not self.pod_selector:
            raise ValueError(
                f"podSelector: must select the collectors' pods when source is {self.source}"
            )
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
