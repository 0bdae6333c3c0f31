"""What other profiles would have done, with the same pods and a simulated API server."""

from collections.abc import Mapping, Sequence

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    SchedulerConfiguration,
    read,
)
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, Event, PodGone, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LoggedEvent, LogHeader
from kubeshare_py.event_log.replay import OtherProfiles, what_if_lines, what_if_report
from kubeshare_py.scheduling.machine import configured_machine
from tests.event_log.histories import a_header
from tests.making import a_cluster, a_share
from tests.making.busy_world import run

SPREAD = {
    "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]},
    "cardScore": {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]},
}
NO_EVICTIONS = {"postFilter": {"disabled": [{"name": "*"}]}}


def configuration(*plugins: Mapping[str, object]) -> SchedulerConfiguration:
    merged = {name: point for one in plugins for name, point in one.items()}
    return read({"profiles": [{"plugins": merged}]})


class Logged:
    """A cluster whose events are logged; every Binding succeeds at once."""

    def __init__(self, used: SchedulerConfiguration) -> None:
        self.header: LogHeader = a_header(run(0), used)
        self.machine = configured_machine(used, IN_TREE, self.header.name)
        self.now = 0.0
        self.events: list[LoggedEvent] = []
        self.nodes: dict[str, str] = {}
        self.tell(*a_cluster({"n1": 1, "n2": 1}))

    def tell(self, *told: Event) -> None:
        for event in told:
            effects = self.machine.handle(event, self.now)
            self.events.append(LoggedEvent(event=event, now=self.now, digest=0, placements=()))
            for effect in effects:
                if isinstance(effect, Bind):
                    self.bound(effect)

    def bound(self, bind: Bind) -> None:
        pod = self.machine.records[bind.uid].pod
        self.nodes[pod.key.name] = bind.node
        shown = replace(pod, node_name=bind.node, allocation=bind.allocation)
        self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()), PodSeen(shown))

    def create(self, *pods: Pod) -> None:
        for pod in pods:
            self.now += 1.0
            self.tell(PodSeen(pod), BindSlotsFree(64))

    def under(self, other: SchedulerConfiguration) -> OtherProfiles:
        world = OtherProfiles(self.header, other, IN_TREE)
        for event in self.events:
            world.play(event)
        return world


def shares(milli: int, *names: str, **fields: int) -> Sequence[Pod]:
    return [a_share(name, milli, **fields) for name in names]


def placed(world: OtherProfiles) -> dict[str, str | None]:
    return {one.key.name: one.node for one in world.pods.values()}


def test_the_same_profiles_place_every_pod_where_it_was() -> None:
    logged = Logged(configuration())
    logged.create(*shares(300, "a", "b", "c", "d", "e"))
    logged.tell(PodGone(logged.machine.records[PodUid("uid-a")].pod.uid))
    logged.create(*shares(300, "f"))
    report = what_if_report([*logged.under(configuration()).pods.values()])
    assert (report.pods, report.moved) == (6, 0)
    assert [*what_if_lines(report)][-1] == "every pod has the same node"


def test_pods_go_where_the_other_profiles_want_them() -> None:
    logged = Logged(configuration())
    logged.create(*shares(300, "a", "b"))
    assert logged.nodes["a"] == logged.nodes["b"], "packed"
    world = logged.under(configuration(SPREAD))
    assert placed(world)["a"] != placed(world)["b"], "spread"
    report = what_if_report([*world.pods.values()])
    assert report.placed == (2, 2)
    assert report.nodes == (1, 2)
    assert report.moved == 1
    assert [line for line in what_if_lines(report) if line.startswith("default/b: n")]


def test_a_pod_that_gets_no_place_here_is_never_placed() -> None:
    logged = Logged(configuration())
    logged.create(*shares(600, "a", "b"), *shares(300, "c"), *shares(700, "d"))
    report = what_if_report([*logged.under(configuration()).pods.values()])
    assert report.never_placed == (1, 1)


def test_victims_leave_at_once_where_the_other_profiles_evict() -> None:
    logged = Logged(configuration(NO_EVICTIONS))
    logged.create(*shares(900, "a", "b"), *shares(900, "urgent", priority=10))
    assert "urgent" not in logged.nodes
    world = logged.under(configuration())
    assert placed(world)["urgent"]
    report = what_if_report([*world.pods.values()])
    assert (report.placed, report.evicted) == ((2, 3), 1)


@pytest.mark.slow
def test_profiles_of_other_schedulers_are_refused() -> None:
    other = read({"profiles": [{"schedulerName": "another"}]})
    with pytest.raises(ConfigurationError, match="another; the log has kubeshare-scheduler"):
        Logged(configuration()).under(other)
