"""How long decisions take about pods that ask something about other pods.

    python benchmarks/inter_pod.py [--nodes N] [--pods N] [-o json]

The cluster has 5,000 nodes in 10 zones and 10,000 pods of 500 apps of 20 pods each; but for
`none-there`, each of these keeps away from its own app's pods on one node, prefers their zone, and
is spread over zones. Then pods come one by one, are placed and stay. Counted is all time inside
`handle` until each is bound, in milliseconds per pod, best of three runs; the median of 100 pods.

`none-there` and `plain`: a pod that asks nothing, in a cluster without such terms, and with them;
`selected`: the same, of an app that terms of placed pods select; `anti`: required anti-affinity;
`affinity`: required affinity to another app; `preferred`: two preferences; `hard` and `soft`:
spread over zones, and over nodes; `all`: all of these. `default`: a pod that asks nothing, under a
profile with kube-scheduler's default constraints and a Service for each app; `unselected`: the
same, of an app without a Service. `new`: each pod of an app of its own, which
is a new shape; `again`: pods of one app, which is a shape seen before.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.cluster_objects import Requirement, ServiceObject, WatchedKind
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    NodesListed,
    ObjectsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import (
    AffinityTerm,
    InterPodTerms,
    Pod,
    PodSelector,
    Shape,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES, APPS = 10, 500
ASKED, ROUNDS = 100, 3
NAMESPACE = "default"
Asking = Callable[[str], InterPodTerms | None]


def pods_of(app: str) -> PodSelector:
    """The pods of an app."""
    return PodSelector((NAMESPACE,), (Requirement("app", "In", (app,)),))


def term(app: str, key: str) -> AffinityTerm:
    """Pods of an app in the same domain."""
    return AffinityTerm(pods_of(app), key)


def even(app: str, key: str, hard: bool) -> SpreadConstraint:
    """An app's pods spread over domains."""
    return SpreadConstraint(max_skew=5, topology_key=key, selector=pods_of(app), hard=hard)


def anti(app: str) -> InterPodTerms:
    """Not on a node with a pod of the same app."""
    return _terms(app, anti_affinity=(term(app, HOSTNAME),))


def near(app: str) -> InterPodTerms:
    """In a zone with a pod of another app."""
    return _terms(app, affinity=(term("app-7", ZONE),))


def preferred(app: str) -> InterPodTerms:
    """Rather on other nodes than its own app, in one zone."""
    wishes = (WeightedTerm(term(app, HOSTNAME), -100), WeightedTerm(term(app, ZONE), 50))
    return _terms(app, preferred=wishes)


def hard(app: str) -> InterPodTerms:
    """Spread over zones."""
    return _terms(app, spread=(even(app, ZONE, True),))


def soft(app: str) -> InterPodTerms:
    """Spread over zones and nodes, if possible."""
    return _terms(app, spread=(even(app, ZONE, False), even(app, HOSTNAME, False)))


def everything(app: str) -> InterPodTerms:
    """All of these."""
    wishes = preferred(app).preferred
    constraints = hard(app).spread + soft(app).spread
    return replace(anti(app), affinity=near(app).affinity, preferred=wishes, spread=constraints)


def placed_terms(app: str) -> InterPodTerms:
    """What the pods ask that are there already."""
    wishes = (WeightedTerm(term(app, ZONE), 10),)
    return replace(anti(app), preferred=wishes, spread=hard(app).spread)


def _terms(app: str, **asked: Any) -> InterPodTerms:
    return replace(InterPodTerms(namespace=NAMESPACE, labels=(("app", app),)), **asked)


ASKINGS: dict[str, Asking] = {
    "plain": lambda app: None,
    "anti": anti,
    "affinity": near,
    "preferred": preferred,
    "hard": hard,
    "soft": soft,
    "all": everything,
}


#: A Service of each app, of those that are there and of new ones.
SERVICES = tuple(
    ServiceObject(name=app, namespace=NAMESPACE, endpoint_labels=(("app", app),))
    for app in (
        *(f"app-{number}" for number in range(APPS)),
        *(f"new-{number}" for number in range(ASKED)),
        "new",
    )
)
#: A profile with kube-scheduler's default constraints.
SPREADING = {
    "profiles": [
        {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}]}
    ]
}


class Crowd:
    """A machine that knows nodes and placed pods."""

    def __init__(self, nodes: int, pods: int, asking: Asking, configuration: object = None) -> None:
        self.machine = Machine(profiles(read(configuration), IN_TREE), "bench")
        self.machine.handle(ObjectsListed(WatchedKind.SERVICE, SERVICES), 0.0)
        self.count = 0
        names = [NodeName(f"node-{number:05d}") for number in range(nodes)]
        there = []
        for number in range(pods):
            pod = self.pod(f"app-{number % APPS}", asking)
            there.append(replace(pod, node_name=names[(number * 7 + number // APPS) % nodes]))
        self.machine.handle(PodsListed(tuple(there), 0.0), 0.0)
        self.machine.handle(
            NodesListed(
                tuple(
                    Node(
                        name=name,
                        labels={HOSTNAME: name, ZONE: f"zone-{number % ZONES}"},
                        allocatable=(("cpu", 128_000), ("memory", 1 << 40), ("pods", 250)),
                    )
                    for number, name in enumerate(names)
                )
            ),
            0.0,
        )

    def pod(self, app: str, asking: Asking) -> Pod:
        """The next pod of an app."""
        self.count += 1
        return Pod(
            uid=PodUid(f"uid-{self.count:07d}"),
            key=PodKey(NAMESPACE, f"pod-{self.count}"),
            shape=Shape(resources=(("cpu", 500), ("memory", 1 << 30)), inter_pod=asking(app)),
            scheduler_name=SCHEDULER_NAME,
            created=f"{self.count:012d}",
            labels=(("app", app),),
        )

    def decide(self, app: str, asking: Asking) -> float:
        """One pod comes and is bound: the time in `handle`, in seconds."""
        pod = self.pod(app, asking)
        now = self.count * 1e-3
        started = time.perf_counter()
        self.machine.handle(PodSeen(pod), now)
        effects = self.machine.handle(BindSlotsFree(64), now)
        (bind,) = [effect for effect in effects if isinstance(effect, Bind)]
        self.machine.handle(BindAnswered(bind.uid, bind.allocation.token, Bound()), now)
        echo = replace(pod, node_name=bind.node, allocation=bind.allocation)
        self.machine.handle(PodSeen(echo), now)
        return time.perf_counter() - started


def measured(nodes: int, pods: int) -> dict[str, dict[str, float]]:
    """Milliseconds per pod, by what it asks and by how new it is."""
    rows = {
        "none-there": _row(nodes, pods, ASKINGS["plain"], ASKINGS["plain"], "new-{}", "new"),
        "selected": _row(nodes, pods, placed_terms, ASKINGS["plain"], "app-{}", "app-3"),
    }
    for name, asking in ASKINGS.items():
        rows[name] = _row(nodes, pods, placed_terms, asking, "new-{}", "new")
    plain = ASKINGS["plain"]
    rows["unselected"] = _row(nodes, pods, plain, plain, "other-{}", "other", SPREADING)
    rows["default"] = _row(nodes, pods, plain, plain, "new-{}", "new", SPREADING)
    return rows


def _row(
    nodes: int,
    pods: int,
    there: Asking,
    asking: Asking,
    apps: str,
    app: str,
    configuration: object = None,
) -> dict[str, float]:
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        crowd = Crowd(nodes, pods, there, configuration)
        crowd.decide("first", asking)
        times = {
            "new": [crowd.decide(apps.format(number), asking) for number in range(ASKED)],
            "again": [crowd.decide(app, asking) for _ in range(ASKED)],
        }
        for kind, seconds in times.items():
            found[kind] = min(found.get(kind, 1e9), round(1e3 * statistics.median(seconds), 3))
    return found


def main() -> None:
    """Print a row for each kind of pod."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    rows = measured(options.nodes, options.pods)
    if options.output == "json":
        print(json.dumps(rows))
        return
    print(f"{'asks':<12}{'new ms':>8}{'again ms':>10}")
    for name, row in rows.items():
        print(f"{name:<12}{row['new']:>8}{row['again']:>10}")


if __name__ == "__main__":
    main()
