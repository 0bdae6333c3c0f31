"""Books about gangs: who may be placed when, worked out from events and effects alone."""

import copy
from collections.abc import Collection
from dataclasses import dataclass, field

from kubeshare_py.domain.cluster_objects import GroupReference
from kubeshare_py.domain.effects import Bind, Effect, Evict, ReportWaiting
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    Event,
    FinishedMember,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodsListed,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from tests.scheduling.reference_model import Holding, ReferenceModel

#: What the pods are sorted by, and who arrived when; of a gang, its first member.
Key = tuple[tuple[int | str, ...] | int, ...]
REPAIR_S, LONGEST_BACKOFF_S, GO_ON_S = 60.0, 10.0, 10.0
#: A member that is refused so keeps its place while others of its gang wait.
OF_THE_REQUEST = frozenset({Refusal.INVALID, Refusal.DENIED, Refusal.FORBIDDEN})


@dataclass
class GangReference(ReferenceModel):
    """Groups are known by name: the world has one namespace."""

    now: float = 0.0
    finished: dict[PodUid, FinishedMember] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    #: Gangs that were met once; how many of their members succeeded; how many pods they have; and
    #: when one of them came.
    ran: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    came_at: dict[str, float] = field(default_factory=dict)
    evicted: set[PodUid] = field(default_factory=set)
    #: When a member's binding failed, or it was edited again; when it was edited; whose place is
    #: kept although it was refused.
    failed_at: dict[PodUid, float] = field(default_factory=dict)
    edited_at: dict[PodUid, float] = field(default_factory=dict)
    kept: set[PodUid] = field(default_factory=set)
    #: When a PodGroup was edited, and when so soon after another time that its gang pauses.
    described_at: dict[str, float] = field(default_factory=dict)
    pauses_at: dict[str, float] = field(default_factory=dict)
    last_try: set[PodUid] = field(default_factory=set)
    armed_at: dict[str, float] = field(default_factory=dict)
    first: dict[str, tuple[str, int]] = field(default_factory=dict)
    told: dict[PodUid, str] = field(default_factory=dict)
    #: Whether the scheduler was ever asked to decide: until then it learns what others did.
    decides: bool = False
    is_turn: bool = False
    #: What PodGroup objects say, by the name of the gang.
    objects: dict[str, int] = field(default_factory=dict)

    def event(self, event: Event, now: float) -> None:
        self.now = now
        self.is_turn = isinstance(event, BindSlotsFree | TimePassed)
        if isinstance(event, BindAnswered) and isinstance(event.outcome, BindRefused):
            self._follow(may_give_up=False)
            if self._keeps_its_place(event):
                self.kept.add(event.uid)
                return
            self.failed_at[event.uid] = now
        before, groups = set(self.held), {uid: pod.group for uid, pod in self.pods.items()}
        finished = dict(self.finished)
        super().event(event, now)
        self._edits(groups)
        for uid in before - self.held.keys():
            self.failed_at[uid] = now
        if isinstance(event, PodGone) and event.finished is not None:
            self.finished[event.uid] = event.finished
        elif isinstance(event, PodGone):
            self.finished.pop(event.uid, None)
        self._objects_change(event)
        if isinstance(event, PodsListed):
            self.finished = {member.uid: member for member in event.finished}
            self._note_work(finished, groups.keys())
            finished = self.finished
            self._recall()
        self._note_work(finished, groups.keys())
        self.decides |= isinstance(event, BindSlotsFree)
        self._note_first()
        if self.is_turn:
            self._follow(may_give_up=True)

    def _edits(self, groups: dict[PodUid, PodGroup | None]) -> None:
        """Whose labels are others now: tried at once if that has not happened lately."""
        for uid, pod in self.pods.items():
            known = groups.get(uid, pod.group)
            if pod.group_reference is None and pod.group != known and uid not in self.held:
                if self.now < self.edited_at.get(uid, -99.0) + 2 * LONGEST_BACKOFF_S:
                    self.failed_at[uid] = self.now
                self.edited_at[uid] = self.now

    def _objects_change(self, event: Event) -> None:
        before = dict(self.objects)
        self._take_in_objects(event)
        for name in sorted(before.keys() | self.objects.keys()):
            if before.get(name) != self.objects.get(name):
                if self.now < self.described_at.get(name, -99.0) + 2 * LONGEST_BACKOFF_S:
                    self.pauses_at[name] = self.now
                self.described_at[name] = self.now

    def _take_in_objects(self, event: Event) -> None:
        if isinstance(event, PodGroupSeen):
            self.objects[GroupReference(event.group.api, event.group.name).gang] = (
                event.group.min_member
            )
        elif isinstance(event, PodGroupGone):
            self.objects.pop(GroupReference(event.api, event.name).gang, None)
        elif isinstance(event, PodGroupsListed) and event.groups is not None:
            self.objects = {
                GroupReference(one.api, one.name).gang: one.min_member for one in event.groups
            }
        for uid, pod in self.pods.items():
            if pod.group_reference is not None:
                name = pod.group_reference.gang
                least = self.objects.get(name)
                group = least and PodGroup(name=name, headcount=least, min_available=least)
                self.pods[uid] = replace(pod, group=group or None)

    def waiting(self) -> list[Pod]:
        """Also nobody whose PodGroup is not there."""
        return [
            pod for pod in super().waiting() if pod.group_reference is None or pod.group is not None
        ]

    def effects(self, effects: list[Effect]) -> None:
        """All that one event led to: gangs are decided whole, and in their turn."""
        new: dict[str, int] = {}
        for effect in effects:
            if isinstance(effect, Bind) and effect.uid not in self.held:
                group = self.pods[effect.uid].group
                if group is not None:
                    new[group.name] = new.get(group.name, 0) + 1
        self._check_whole(new)
        decided: set[str] = set()
        for effect in effects:
            if isinstance(effect, Bind):
                self._bind(effect, decided)
            if isinstance(effect, Evict):
                assert self._is_bound(effect.uid)
                self.evicted.add(effect.uid)
            if isinstance(effect, ReportWaiting):
                self.told[effect.uid] = effect.diagnosis.message
            self.effect(effect)
        self._note_first()
        if self.is_turn:
            self._follow(may_give_up=False)

    def _check_whole(self, new: dict[str, int]) -> None:
        """No gang gets places for a part of it; `new` are how many it gets now, by its name."""
        for name, count in new.items():
            placed = len(self.placed(name)) + count + self.completed(name)
            if self.goes_on(name):
                assert self.now >= self.came_at[name] + GO_ON_S, f"{name} did not wait"
                self.met.add(name)
            assert name in self.met or placed >= self.minimum(name), f"{name} decided in part"

    def _bind(self, effect: Bind, decided: set[str]) -> None:
        self.kept.discard(effect.uid)
        if effect.uid not in self.held:
            self._check_turn(self.pods[effect.uid], decided)
            self.last_try.discard(effect.uid)

    def placed(self, name: str) -> list[PodUid]:
        """Members with a place that they are to keep."""
        return [
            uid
            for uid, held in self.held.items()
            if uid not in self.evicted and _group(held) == name and not self.pods[uid].deleting
        ]

    def candidates(self, name: str) -> list[Pod]:
        """Members that may be tried."""
        if self.now <= self.pauses_at.get(name, -99.0) + LONGEST_BACKOFF_S:
            return []  # these books do not know when exactly the pause ends
        return [
            pod
            for pod in self.waiting()
            if pod.group is not None
            and pod.group.name == name
            and self.now > self.failed_at.get(pod.uid, -99.0) + LONGEST_BACKOFF_S
        ]

    def minimum(self, name: str) -> int:
        """What its object says, the most that one who waits asks for, or the least granted."""
        if name in self.objects:
            return self.objects[name]
        groups = [pod.group for pod in self.waiting() if pod.group is not None]
        asked = [group.min_available for group in groups if group.name == name]
        granted = [
            held.allocation.min_available
            for held in (self.held[uid] for uid in self.placed(name))
            if held.allocation is not None
        ]
        return max(asked) if asked else min(granted, default=0)

    def there(self, name: str) -> int:
        """Members that stay, with or without a place."""
        return sum(
            self._is_in(pod, name) and not pod.deleting and pod.uid not in self.evicted
            for pod in self.pods.values()
        )

    def completed(self, name: str) -> int:
        """Members that succeeded and have no successor: no more than are missing."""
        size = self.objects.get(name) or max(self.sizes.get(name, 0), self.minimum(name))
        return max(0, min(self.done.get(name, 0), size - self.there(name)))

    def goes_on(self, name: str) -> bool:
        """Whether a gang that ran lost all places, and some members for good."""
        is_lost = name in self.ran and not self.placed(name)
        return is_lost and self.there(name) + self.completed(name) < self.minimum(name)

    def names(self) -> list[str]:
        """All gangs."""
        return sorted({name for pod in self.pods.values() if (name := self._gang_of(pod))})

    def need(self, name: str) -> int:
        """How many more must be placed at once; 0 where each goes alone."""
        if name in self.met or self.minimum(name) <= 1 or self.goes_on(name):
            return 0
        return max(0, self.minimum(name) - len(self.placed(name)) - self.completed(name))

    def fits(self, name: str) -> bool:
        """Whether the gang fits now, by trying; said only of gangs of one shape."""
        need, pods = self.need(name), self.candidates(name)
        if not need or len(pods) < need or len({pod.shape for pod in pods}) > 1:
            return False
        trial = copy.copy(self)
        trial.held = dict(self.held)
        for pod in pods[:need]:
            node = trial.fits_somewhere(pod)
            if node is None:
                return False
            trial.held[pod.uid] = trial.holding(pod, node)
        return True

    def key(self, name: str) -> Key:
        """Where the gang stands."""
        created, arrived = self.first[name]
        ranks = sorted((-p.priority, -p.label_priority) for p in self.candidates(name))
        return (*ranks[self.need(name) - 1], created), arrived

    def key_alone(self, pod: Pod) -> Key:
        """Where a pod stands that is not decided with others."""
        name, arrived = pod.group.name if pod.group is not None else "", self.arrived[pod.uid]
        if name not in self.first:
            return (-pod.priority, -pod.label_priority, pod.created), arrived
        created, first = self.first[name]
        return (-pod.priority, -pod.label_priority, created), first, arrived

    def _check_turn(self, pod: Pod, decided: set[str]) -> None:
        """No gang that stands before this pod would fit."""
        name = pod.group.name if pod.group is not None else ""
        if name in decided:
            return
        together = bool(name) and self.need(name) > 0
        if together:
            decided.add(name)
            if len(self.candidates(name)) < self.need(name):
                return  # some may have come back from a backoff: these books do not know when
            mine = self.key(name)
        else:
            mine = self.key_alone(pod)
        for other in self.names():
            if other not in decided and self.fits(other):
                assert self.key(other) > mine, f"{pod.key} went before {other}"

    def _follow(self, may_give_up: bool) -> None:
        """Which gangs are met now, and whose time is over: what happens between turns is one."""
        for name in self.names():
            placed = self.placed(name)
            settled = [uid for uid in placed if self._is_bound(uid)]
            if not placed:
                self.met.discard(name)
            elif len(settled) + self.completed(name) >= self.minimum(name):
                self.met.add(name)
            if name in self.met or not placed or self.minimum(name) <= 1:
                self.armed_at.pop(name, None)
                continue
            armed_at = self.armed_at.setdefault(name, self.now)
            if may_give_up and self.now >= armed_at + REPAIR_S:
                self.armed_at[name] = self.now
                for uid in placed:
                    if uid in self.kept:
                        self.kept.discard(uid)
                        del self.held[uid]
                    elif not self._is_bound(uid):
                        self.last_try.add(uid)

    def _note_first(self) -> None:
        """A gang is as old as the first of its members, for as long as it has any."""
        for uid, pod in self.pods.items():
            name = self._gang_of(pod)
            first = pod.created, self.arrived[uid]
            if name and (name not in self.first or first < self.first[name]):
                self.first[name] = first
        left = {*self.names(), *(member.group for member in self.finished.values())}
        self.first = {name: first for name, first in self.first.items() if name in left}
        self.met &= left
        self.ran |= self.met
        for name in self.sizes.keys() - left:
            del self.sizes[name]
            if name not in self.ran:
                self.done.pop(name, None)

    def _note_work(self, before: dict[PodUid, FinishedMember], known: Collection[PodUid]) -> None:
        """Whose work is done now, and which members came."""
        for uid in self.finished.keys() - before.keys():
            one = self.finished[uid]
            self.done[one.group] = self.done.get(one.group, 0) + one.succeeded
        for uid, pod in self.pods.items():
            name = self._gang_of(pod)
            if name and uid not in known:
                self.came_at[name] = self.now
            if name:
                size = pod.group.headcount if pod.group else 0
                held = self.held.get(uid)
                if held is not None and held.allocation is not None and pod.group_reference:
                    size = held.allocation.min_available
                self.sizes[name] = max(self.sizes.get(name, 0), size)

    def _recall(self) -> None:
        """A list shows a scheduler that has not decided yet which gangs ran, or run.

        Those of which enough members ran once, dead and lost ones included: where not enough are
        there for a start, nobody can be in the middle of one.
        """
        for name in self.names() if not self.decides else ():
            ran = [one for one in self.finished.values() if one.group == name]
            ran = [one for one in ran if one.had_node]
            enough_ran = len(self.placed(name)) + len(ran) >= self.minimum(name)
            too_few = self.there(name) + self.completed(name) < self.minimum(name)
            if ran:
                self.ran.add(name)
            if self.placed(name) and (enough_ran or too_few):
                self.met.add(name)
            else:
                self.met.discard(name)

    def _keeps_its_place(self, event: BindAnswered) -> bool:
        held, outcome = self.held.get(event.uid), event.outcome
        if held is None or held.allocation is None or self._is_bound(event.uid):
            return False
        if event.uid in self.last_try:
            return False
        current = held.allocation.token == event.token
        invalid = isinstance(outcome, BindRefused) and outcome.refusal in OF_THE_REQUEST
        name = _group(held)
        return current and invalid and name != "" and name in self.armed_at

    def _is_bound(self, uid: PodUid) -> bool:
        return self.held[uid].settled or self.held[uid].answered_at is not None

    def _is_in(self, pod: Pod, name: str) -> bool:
        return self._gang_of(pod) == name

    def _gang_of(self, pod: Pod) -> str:
        """As its labels say, and once it has a node as its allocation says."""
        held = self.held.get(pod.uid)
        return _named(pod) if held is None else _group(held)


def _named(pod: Pod) -> str:
    """The gang that an unbound pod names."""
    if pod.group_reference is not None:
        return pod.group_reference.gang
    return pod.group.name if pod.group is not None else ""


def _group(held: Holding) -> str:
    return held.allocation.group or "" if held.allocation is not None else ""
