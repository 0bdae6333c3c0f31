"""Stories in which the scheduler asks collectors itself."""

from tests.edges.collector_place import Place
from tests.stories.conftest import PODS, Json, Stage

LABEL = {"app.kubernetes.io/name": "kubeshare-collector"}


def scrape_of(place: Place) -> Json:
    """The configuration of a scheduler that finds collectors in the stories' namespace."""
    inventory = {
        "source": "scrape",
        "namespace": "default",
        "port": place.port,
        "intervalSeconds": 0.3,
    }
    return {"inventory": inventory, "leaderElection": {"leaderElect": False}}


async def start_collector(stage: Stage, node: str, host: str) -> None:
    """A pod on this node that looks like a collector, and answers at this address."""
    name = f"collector-{node}"
    containers = [{"name": "main", "image": "kubeshare"}]
    await stage.client.create(
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": LABEL},
            "spec": {"nodeName": node, "containers": containers},
        },
    )
    await stage.expect_running(name)
    status = {"podIP": host, "podIPs": [{"ip": host}]}
    await stage.client.merge_patch(f"{PODS}/{name}/status", {"status": status})


def auto_of(place: Place, url: str = "") -> Json:
    """The same, of a scheduler that prefers the Prometheus at `url`, or one that it finds."""
    document = scrape_of(place)
    inventory = {**document["inventory"], "source": "auto", "url": url, "intervalSeconds": 0.1}
    return {**document, "inventory": inventory}
