"""Any history of runs: each starts whole on its own pods, and none that started waits for ever."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    FinishedMember,
    InventoryRead,
    NodeSeen,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import (
    a_claim,
    a_cluster,
    a_group,
    a_machine,
    a_node,
    a_pod,
    a_shape,
    of,
    some_gpus,
)
from tests.making.world import Step
from tests.scale import examples
from tests.scheduling.test_any_history import any_steps

SHAPE = a_shape(a_claim(1000))
CARDS = {"n1": 4, "n2": 3}
ACTIONS = 11


@dataclass
class Run:
    """What controllers want of one run: by owner, which of its pods are yet to succeed."""

    group: str
    minimum: int
    #: By owner and number of a member: its pod, None if it is to be made anew.
    members: dict[tuple[str, int], PodUid | None] = field(default_factory=dict)
    started: bool = False


class RunWorld:
    """Its books know each run's members; they ask the machine nothing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.count = 0
        self.runs: list[Run] = []
        self.pods: dict[PodUid, Pod] = {}
        self.finished: dict[PodUid, FinishedMember] = {}
        self.cards = dict(CARDS)
        self.machine = a_machine()
        self.tell(*a_cluster(self.cards))

    def tell(self, *events: Event) -> list[Bind]:
        effects = [one for event in events for one in self.machine.handle(event, self.now)]
        return of(Bind, effects)

    def decide(self) -> None:
        """All that can be bound now is bound, and each run is looked at."""
        for _ in range(100):
            binds = self.tell(BindSlotsFree(64))
            for bind in binds:
                pod = self.pods[bind.uid]
                bound = replace(pod, node_name=bind.node, allocation=bind.allocation)
                self.pods[bind.uid] = bound
            self.check()
            for bind in binds:
                self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()))
                self.tell(PodSeen(self.pods[bind.uid]))
            wake_at = self.machine.wake_at(self.now)
            if not binds and (wake_at is None or wake_at > self.now):
                return
        raise AssertionError("never idle")

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (wake_at := self.machine.wake_at(self.now)) is not None and wake_at <= end:
            self.now = max(self.now, wake_at)
            self.decide()
        self.now = end
        self.decide()

    def check(self) -> None:
        """No run starts with fewer than its minimum, whatever other runs have."""
        for run in self.runs:
            placed = sum(self.is_bound(uid) for uid in run.members.values())
            if not run.started:
                assert placed in (0, *range(run.minimum, 100)), f"{run} started in part"
                run.started = placed > 0

    def is_bound(self, uid: PodUid | None) -> bool:
        return uid is not None and uid in self.pods and self.pods[uid].node_name is not None

    # --- what happens --------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        action, which, how = step
        (
            self.begin,
            self.begin,
            self.begin_of_two,
            self.end,
            self.end,
            self.end,
            self.drain,
            self.sweep,
            self.remake,
            self.restart,
            self.drop,
        )[action](which, how)
        if how % 3:
            self.decide()
        else:
            self.pass_time(1.5 * how)

    def begin(self, which: int, how: int) -> None:
        """A Job begins; another one of its group may run."""
        minimum = 2 + how % 3
        run = Run(f"single-{minimum}", minimum)
        self.count += 1
        owner = f"job-{self.count}"
        run.members = {(owner, number): None for number in range(minimum)}
        self.runs.append(run)
        self.make(run, one_by_one=which % 2 == 0)

    def begin_of_two(self, which: int, how: int) -> None:
        """Two Jobs make up one gang, whose group has no other run now."""
        if any(run.group == "two" and any(run.members.values()) for run in self.runs):
            return
        self.count += 1
        run, number = Run("two", 3), self.count
        run.members = {(f"w-{number}", 0): None, (f"w-{number}", 1): None, (f"d-{number}", 0): None}
        self.runs.append(run)
        self.make(run, one_by_one=how % 2 == 0)

    def make(self, run: Run, *, one_by_one: bool = False) -> None:
        """Controllers make the pods that are missing, in one go."""
        for (owner, number), uid in run.members.items():
            if uid is None:
                self.count += 1
                group = a_group(run.minimum, run.group)
                name = f"{owner}-{number}-{self.count}"
                pod = a_pod(name, SHAPE, group=group, owner=owner, created=f"{self.count:06d}")
                run.members[owner, number] = pod.uid
                self.pods[pod.uid] = pod
                self.tell(PodSeen(pod))
                if one_by_one:
                    self.now += 0.1
                    self.decide()

    def end(self, which: int, how: int) -> None:
        """A pod succeeds, or fails, or fails for good."""
        bound = [uid for uid in self.pods if self.is_bound(uid)]
        if not bound:
            return
        pod = self.pods.pop(bound[which % len(bound)])
        run, place = self.place_of(pod.uid)
        assert pod.allocation is not None
        self.finished[pod.uid] = member = FinishedMember(
            uid=pod.uid,
            namespace="default",
            group=run.group,
            owner=pod.owner,
            succeeded=how < 5,
            group_owners=pod.allocation.group_owners,
        )
        self.tell(PodGone(pod.uid, member, stopped=True))
        if how < 8:
            run.members[place] = None
        if how < 5 or how >= 8:
            del run.members[place]

    def drain(self, which: int, how: int) -> None:
        """A running pod is deleted; its controller makes it anew at some time."""
        bound = [uid for uid in self.pods if self.is_bound(uid)]
        if bound:
            uid = bound[which % len(bound)]
            run, place = self.place_of(uid)
            run.members[place] = None
            del self.pods[uid]
            self.tell(PodGone(uid, stopped=True))

    def sweep(self, which: int, how: int) -> None:
        """A pod that is over is deleted."""
        if self.finished:
            uid = sorted(self.finished)[which % len(self.finished)]
            del self.finished[uid]
            self.tell(PodGone(uid))

    def remake(self, which: int, how: int) -> None:
        if self.runs:
            self.make(self.runs[which % len(self.runs)])

    def drop(self, which: int, how: int) -> None:
        """All pods of a run are deleted for good."""
        if self.runs:
            run = self.runs.pop(which % len(self.runs))
            for uid in run.members.values():
                if uid is not None and self.pods.pop(uid, None) is not None:
                    self.tell(PodGone(uid, stopped=True))
            owners = {owner for owner, _ in run.members}
            for uid in [uid for uid, one in self.finished.items() if one.owner in owners]:
                del self.finished[uid]
                self.tell(PodGone(uid))

    def restart(self, which: int, how: int) -> None:
        """Another scheduler begins, if pods of each run that started are left.

        Of a run without any the next scheduler cannot know (docs/gangs.md).
        """
        seen = {one.owner for one in self.finished.values()}
        seen |= {pod.owner for pod in self.pods.values() if pod.node_name is not None}
        for run in self.runs:
            if run.started and run.members and not {owner for owner, _ in run.members} <= seen:
                return
        self.machine = a_machine(name=f"test-{self.count}")
        pods, finished = tuple(self.pods.values()), tuple(self.finished.values())
        listed = PodsListed(pods, self.now, finished=finished)
        _, nodes, cards = a_cluster(self.cards)
        self.tell(listed, nodes, cards)

    def place_of(self, uid: PodUid) -> tuple[Run, tuple[str, int]]:
        for run in self.runs:
            for place, member in run.members.items():
                if member == uid:
                    return run, place
        raise AssertionError(f"{uid} is in no run")

    def settle(self) -> None:
        """Controllers make all missing pods, and the cluster gets room for all."""
        for run in self.runs:
            self.make(run)
        self.cards["large"] = 500
        name = NodeName("large")
        self.tell(NodeSeen(a_node("large")), InventoryRead(((name, some_gpus("large", 500)),)))
        self.pass_time(60)


def run_of(steps: list[Step]) -> RunWorld:
    world = RunWorld()
    for step in steps:
        world.step(step)
    world.settle()
    return world


@pytest.mark.slow
@examples(80)
@given(any_steps(ACTIONS, 7))
def test_runs_start_whole_and_their_lost_members_come_back(steps: list[Step]) -> None:
    world = run_of(steps)
    left = [pod.key.name for pod in world.pods.values() if pod.node_name is None]
    assert left == [], f"{left} wait although there is room"
