"""An hour of the demo's cluster as Prometheus would have scraped it, made in seconds.

Nodes and cards are those of config/demo-cluster.yaml. Two schedulers see everything; one leads.
Their machines and all exporters are the shipped ones. The clock, the users, the API server's
answers and the drivers' readings are of this module. Things go wrong on purpose, so that all that
boards show has something to say.
"""

from collections.abc import AsyncIterator, Iterator
from random import Random
from time import perf_counter

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.card_reading import CardReading, JudgedCard, MemoryErrors
from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.effects import Bind, Effect, Evict
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    Bound,
    InventoryRead,
    NodeSeen,
    NodesListed,
    ObjectsListed,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.quota import QuotaObject
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.scheduler.endpoints import MetricsPage
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.exporters.collector_metrics import READ, CollectorFigures, cards_text, page
from kubeshare_py.exporters.hami_metrics import HamiSchedulerPage
from kubeshare_py.exporters.hami_node_metrics import HamiUse, hami_page
from kubeshare_py.exporters.metric import Build
from kubeshare_py.exporters.scheduler_metrics import WriteFigures
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.plugin import NodeState, PerNodeScore
from kubeshare_py.scheduling.explain.figures import (
    card_figures,
    pod_figures,
    quota_uses,
    shared_cards,
)
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from kubeshare_py.views.figures import HeldPart
from tests.architecture.sources import ROOT
from tests.making import GIB, a_claim, a_node, a_pod, a_shape, whole
from tests.making.driver import of

#: Unix time (s) of the first scrape.
BEGIN, SCRAPE_S, SCRAPES = 1_767_225_600, 30, 121
END = BEGIN + SCRAPE_S * (SCRAPES - 1)
COLLECTOR, AGENT = "kubeshare-collector", "kubeshare-node-agent"
#: Scrapes during which a card is broken, and during which a plugin cannot read a node's label.
_BROKEN, _ODD = range(40, 121), range(60, 64)
_BROKEN_CARD = (NodeName("a100-2"), 3)
_XID = "xid-79"
_PRICE = "example.com/price"
_TEAMS = ("research", "serving", "default")
_T4 = "Tesla-T4"
_BUILD = Build(version="0.1.0", python_version="3.12.0")


class _CheapNodes(PerNodeScore):
    """Fails for nodes whose price is no number."""

    def __init__(self) -> None:
        def points(shape: Shape, node: NodeState) -> int:
            return 100 - int(node.label(_PRICE) or 100)

        super().__init__("CheapNodes", points)


class Replica:
    """One scheduler: its machine and what its page of metrics is made of."""

    def __init__(self, name: str, *, leads: bool) -> None:
        plugins = {"score": {"enabled": [{"name": "CheapNodes"}]}}
        known = {**IN_TREE, "CheapNodes": _CheapNodes}
        self.name = name
        self.machine = Machine(profiles(read({"profiles": [{"plugins": plugins}]}), known), name)
        self.now = 0.0
        self.health = ProcessHealth(self.machine, lambda: self.now)
        self.requests = RequestTallies("10.0.0.1:6443")
        self.failed_writes = 0
        self._leader = LeaderFigures(name=SCHEDULER_NAME, leads=leads, slow_renewals=1)
        self._page = MetricsPage(self.health, self._writes, self.requests, lambda: self._leader)

    def tell(self, *events: MachineEvent) -> list[Effect]:
        """What its machine asks for because of these events."""
        found: list[Effect] = []
        for event in events:
            began_s = perf_counter()
            effects = self.machine.handle(event, self.now)
            self.health.handled(event, effects, perf_counter() - began_s)
            found += effects
        return found

    async def text(self) -> str:
        """Its page."""
        return b"".join(await self._page.chunks()).decode()

    def hami_text(self) -> str:
        """Its page under HAMi's names."""
        made, names = HamiSchedulerPage(_BUILD, legacy=False), Hami().quota_names
        assert names is not None
        for cards, parts in shared_cards(self.machine):
            made.add(cards, parts)
        for uses in quota_uses(self.machine, [names]):
            made.add_quotas(uses)
        return b"".join(made.chunks()).decode()

    def held_parts(self) -> list[HeldPart]:
        """What each pod holds of each card."""
        return [part for _, parts in shared_cards(self.machine) for part in parts]

    def _writes(self) -> WriteFigures:
        return WriteFigures(queued=1, failed={("event", "429"): self.failed_writes})


class DemoHour:
    """What happens, scrape by scrape."""

    def __init__(self) -> None:
        self.leader = Replica("scheduler-a", leads=True)
        self.standby = Replica("scheduler-b", leads=False)
        nodes = read_cluster((ROOT / "config/demo-cluster.yaml").read_text())
        self.cards = {node.name: node.cards for node in nodes if node.cards}
        self._random = Random(7)
        self._number = 0
        self._pods: dict[PodUid, Pod] = {}
        #: At which scrape each running pod ends.
        self._ends: dict[PodUid, int] = {}
        self._unanswered: list[Bind] = []
        limits = (("nvidia.com/gpumem", 200_000), ("nvidia.com/gpucores", 800))
        quota = QuotaObject(name="cards", namespace="research", hard_limits=limits)
        self._tell(
            PodsListed((), 0.0),
            NodesListed(tuple(a_node(node.name) for node in nodes)),
            InventoryRead(tuple(self.cards.items())),
            ObjectsListed(WatchedKind.RESOURCE_QUOTA, (quota,)),
        )

    async def lines(self) -> list[str]:
        """The whole hour, in the format that promtool makes blocks of."""
        found = []
        for self._number in range(SCRAPES):
            self._pass_on()
            at = BEGIN + self._number * SCRAPE_S
            async for job, instance, text in self._scraped(at):
                target = f'job="{job}",instance="{instance}"'
                # As deploy/prometheus.yaml labels collectors; what they say goes before it.
                up = f'{target},node="{instance}"' if job == COLLECTOR else target
                found += [*_stamped("up 1", up, at), *_stamped(text, target, at)]
        return [*found, "# EOF"]

    def waiting(self) -> int:
        """Pods that wait for a place and are not gated."""
        *_, figures = pod_figures(self.leader.machine)
        return figures.active + figures.backoff + figures.unschedulable + figures.outside

    # --- what happens ---------------------------------------------------------------------------

    def _tell(self, *events: MachineEvent) -> list[Effect]:
        """Both see this; what the leader asks for."""
        self.standby.tell(*events)
        return self.leader.tell(*events)

    def _pass_on(self) -> None:
        """Time passes until the next scrape."""
        for replica in (self.leader, self.standby):
            replica.now = float(self._number * SCRAPE_S)
            replica.health.inventory_read()
            replica.health.late(replica.now, self._random.random() / 100)
        self._fail()
        for uid in [uid for uid, end in self._ends.items() if end <= self._number]:
            self._gone(uid)
        for bind in self._unanswered:
            self._answer(bind)
        self._unanswered = []
        for _ in range(self._random.choice((0, 0, 1, 1, 2, 3))):
            self._create()
        self._decide()

    def _fail(self) -> None:
        """What goes wrong at this time, and is mended later."""
        node, index = _BROKEN_CARD
        if self._number == _BROKEN.start:
            cards = tuple(replace(card, healthy=card.index != index) for card in self.cards[node])
            self._tell(InventoryRead(((node, cards),)))
        if self._number in (_ODD.start, _ODD.stop):
            price = "abc" if self._number == _ODD.start else "1"
            self._tell(NodeSeen(a_node("rtx-1", labels={_PRICE: price})))
        if self._number in _ODD:
            self.leader.health.tallies.slow_plugin("CheapNodes")
            self.leader.requests.ended("PATCH", 429, 0.001)
            self.leader.requests.sent_again("PATCH", 429)
            self.leader.failed_writes += 1

    def _create(self) -> None:
        """A user creates a pod: a share, whole cards, one that fits nowhere, one that is gated."""
        chosen = self._random
        kind, name = chosen.random(), f"p{len(self._pods)}"
        memory = chosen.randint(1, 12) * GIB
        claim = a_claim(chosen.choice((200, 300, 500, 700)), memory_bytes=memory)
        if kind > 0.9:
            claim = whole(chosen.choice((1, 2, 4, 8)))
        elif kind > 0.8:
            claim = replace(claim, models=(_T4,))
        elif kind > 0.75:
            claim = replace(claim, models=("none-such",))
        pod = a_pod(
            name,
            a_shape(claim),
            priority=chosen.choice((0, 0, 0, 100)),
            gates=("later",) if kind < 0.03 else (),
        )
        pod = replace(pod, key=PodKey(chosen.choice(_TEAMS), name))
        self._pods[pod.uid] = pod
        self._tell(PodSeen(pod))

    def _decide(self) -> None:
        """The leader decides; half of its Bindings are answered at once, the others later."""
        for _ in range(100):
            effects = self.leader.tell(BindSlotsFree(8))
            binds = of(Bind, effects)
            for place, bind in enumerate(binds):
                if place % 2:
                    self._answer(bind)
                else:
                    self._unanswered.append(bind)
            for evicted in of(Evict, effects):
                self._gone(evicted.uid)
            if not binds:
                return

    def _answer(self, bind: Bind) -> None:
        """The API server answers a Binding, and the watch shows the pod bound."""
        took_s = self._random.random() / 50
        refused = self._random.random() < 0.03
        self.leader.requests.waited("POST", took_s / 100)
        self.leader.requests.ended("POST", 422 if refused else 201, took_s)
        outcome = BindRefused(Refusal.INVALID, "refused") if refused else Bound()
        self.leader.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))
        if not refused:
            pod = self._pods[bind.uid]
            self._tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
            self._ends[bind.uid] = self._number + self._random.randint(10, 60)

    def _gone(self, uid: PodUid) -> None:
        self._ends.pop(uid, None)
        self._tell(PodGone(uid, stopped=True))

    # --- what is scraped ------------------------------------------------------------------------

    async def _scraped(self, at: float) -> AsyncIterator[tuple[str, str, str]]:
        """Job, instance and text of each page."""
        for replica in (self.leader, self.standby):
            yield SCHEDULER_NAME, replica.name, await replica.text()
            yield "kubeshare-hami-metrics", replica.name, replica.hami_text()
        held = {
            uuid: (milli, size)
            for cards in card_figures(self.leader.machine)
            for uuid, milli, size in zip(
                cards.uuids, cards.allocated_milli, cards.allocated_bytes, strict=True
            )
        }
        for node, cards in self.cards.items():
            judged = tuple(self._judged(node, card, *held[card.uuid]) for card in cards)
            yield COLLECTOR, node, self._collected(node, judged, at)
            yield AGENT, node, hami_page(node, (), [*self._uses(node)])

    def _judged(self, node: NodeName, card: Gpu, milli: int, size: int) -> JudgedCard:
        """What a driver says of a card of which pods hold so much."""
        busy = min(100, int(milli / 10 * self._random.uniform(0.3, 0.9)))
        broken = (node, card.index) == _BROKEN_CARD and self._number in _BROKEN
        reading = CardReading(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            memory_bytes=card.memory_bytes,
            used_bytes=GIB // 2 + int(size * 0.8),
            busy_percent=busy,
            temperature_celsius=35 + busy // 3,
            power_milliwatts=(60 + 3 * busy) * 1000,
            errors=MemoryErrors(corrected=int(broken), uncorrected=0),
        )
        return JudgedCard(reading=reading, faults=(_XID,) if broken else ())

    def _collected(self, node: NodeName, judged: tuple[JudgedCard, ...], at: float) -> str:
        bad = self.cards[_BROKEN_CARD[0]][_BROKEN_CARD[1]].uuid
        first = max(0, self._number - _BROKEN.start)
        figures = CollectorFigures(
            node=node,
            cards=judged,
            listed=self.cards[node],
            errors={(bad, _XID): first} if node == _BROKEN_CARD[0] else {},
            unanswered={},
            readings={READ: self._number},
            driver="550.90.07",
            age_s=self._random.uniform(0, 5),
            took_s=0.01,
        )
        return page(figures, cards_text(figures), at, "")[0].decode()

    def _uses(self, node: NodeName) -> Iterator[HamiUse]:
        """What containers with HAMi-core use there."""
        for part in self.leader.held_parts():
            if part.of.node == node:
                yield HamiUse(
                    pod=PodKey(part.namespace, part.pod),
                    container="main",
                    number=0,
                    uuid=part.of.uuid,
                    limit_bytes=part.memory_bytes,
                    used_bytes=part.memory_bytes // 2,
                    busy_percent=part.milli // 20,
                )


def _stamped(text: str, target: str, at: int) -> Iterator[str]:
    """Each series with its target's labels, and the time of the scrape."""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series, _, value = line.rpartition(" ")
        labelled = f"{series[:-1]},{target}}}" if series.endswith("}") else f"{series}{{{target}}}"
        yield f"{labelled} {value} {at}"
