"""Pod groups whose members must start together: their members, and how many more they need.

A group may be run several times, also at the same time: by the Jobs of a CronJob, for example. Each
run is a gang of its own, of the pods of one owner, or of several owners that are too small alone.
Only its own members count for it (docs/decisions/0028-runs-of-a-gang.md).

It records, and decides nothing. Nearly all of it follows from the existing pods, so a restarted
scheduler finds what its predecessor knew: a bound pod's gang, minimum and owners are those in its
allocation, an unbound pod's those of its labels. What only this process remembers are members that
succeeded and were deleted, and gangs of which all pods were deleted for a while.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import assert_never

from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.events import (
    FinishedMember,
    PodGroupEvent,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup, Shape
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import PodState, Record

# The known PodGroup objects, and the groups of pods that name one.
#
# Pods may come before their PodGroup, and it may be changed or deleted at any time. A pod whose
# PodGroup is unknown is gated; a bound pod stays in its gang, whatever happens to the object.


GangKey = tuple[str, str]


class GroupObjects:
    """The known PodGroups, and the APIs that have been listed."""

    def __init__(self) -> None:
        self._objects: dict[GangKey, PodGroupObject] = {}
        #: Why an API may have no PodGroups; no entry for APIs that were not listed yet.
        self._trouble: dict[GroupApi, str] = {}
        #: Gangs whose pods name an unknown object, by API.
        self._missed: dict[GangKey, GroupApi] = {}

    def change(self, event: PodGroupEvent) -> list[GangKey]:
        """Take in an event; the gangs whose pods are affected."""
        match event:
            case PodGroupSeen(group=group):
                return self._put(group)
            case PodGroupGone(api=api, namespace=namespace, name=name):
                key = _gang(api, namespace, name)
                return [key] if self._objects.pop(key, None) is not None else []
            case PodGroupsListed():
                return self._listed(event)
            case _:
                assert_never(event)

    def min_member(self, key: GangKey) -> int | None:
        """The minimum of a gang's object; None if there is none."""
        known = self._objects.get(key)
        return None if known is None or known.unsupported else known.min_member

    def wanted(self, api: GroupApi, gangs: Container[GangKey]) -> bool:
        """Whether pods of one of these gangs wait for an object of this API."""
        return any(missed is api and key in gangs for key, missed in self._missed.items())

    def listed(self) -> dict[GroupApi, tuple[tuple[PodGroupObject, ...], str]]:
        """By API that was listed: its known objects, and why there may be none."""
        return {
            api: (tuple(one for one in self._objects.values() if one.api is api), problem)
            for api, problem in self._trouble.items()
        }

    def forget(self, key: GangKey) -> None:
        """The gang has no pods any more."""
        self._missed.pop(key, None)

    def resolved(self, pod: Pod) -> Pod:
        """The pod with the group of its object; pods that name none are unchanged.

        A bound pod's group is that of its allocation.
        """
        reference = pod.group_reference
        if reference is None or pod.node_name is not None:
            return pod
        known = self._objects.get((pod.key.namespace, reference.gang))
        group = None
        if known is not None and not known.unsupported:
            least = known.min_member
            group = PodGroup(
                name=reference.gang, headcount=least, min_available=least, within=known.within
            )
        return pod if pod.group == group else replace(pod, group=group)

    def reason(self, pod: Pod) -> str | None:
        """Why a pod is gated because of its object, None if it is not.

        Empty until the API was listed: nothing is reported then.
        """
        reference = pod.group_reference
        if reference is None:
            return None
        key = (pod.key.namespace, reference.gang)
        known = self._objects.get(key)
        if known is None:
            self._missed[key] = reference.api
            trouble = self._trouble.get(reference.api)
            if trouble is None:
                return ""
            missing = f'PodGroup "{reference.name}" of {reference.api} is not there'
            return f"{missing}: its API {trouble}" if trouble else missing
        if known.unsupported:
            fields = listed(known.unsupported)
            return f'PodGroup "{reference.name}" of {reference.api}: not supported yet: {fields}'
        return None

    def _put(self, group: PodGroupObject) -> list[GangKey]:
        key = _key(group)
        self._missed.pop(key, None)
        if self._objects.get(key) == group:
            return []
        self._objects[key] = group
        return [key]

    def _listed(self, event: PodGroupsListed) -> list[GangKey]:
        changed: list[GangKey] = []
        if self._trouble.get(event.api) != event.problem:
            self._trouble[event.api] = event.problem
            changed += self._missing(event.api)
        if event.groups is not None:
            found = {_key(group) for group in event.groups}
            found.update(_gang(event.api, *name) for name in event.unreadable)
            gone = [
                key
                for key, known in self._objects.items()
                if known.api is event.api and key not in found
            ]
            for key in gone:
                del self._objects[key]
            changed += gone
            for group in event.groups:
                changed += self._put(group)
        return list(dict.fromkeys(changed))

    def _missing(self, api: GroupApi) -> Iterator[GangKey]:
        """Drop and yield gangs that miss an object of this API; they register again if needed."""
        missing = [key for key, missed in self._missed.items() if missed is api]
        for key in missing:
            del self._missed[key]
        yield from missing


def _key(group: PodGroupObject) -> GangKey:
    return _gang(group.api, group.namespace, group.name)


def _gang(api: GroupApi, namespace: str, name: str) -> GangKey:
    return namespace, GroupReference(api, name).gang


# Pod groups whose members must start together: their members, and how many more they need.
#
# A group may be run several times, also at the same time: by the Jobs of a CronJob, for example.
# Each run is a gang of its own, of the pods of one owner, or of several owners that are too small
# alone. Only its own members count for it (docs/decisions/0028-runs-of-a-gang.md).
#
# It records, and decides nothing. Nearly all of it follows from the existing pods, so a restarted
# scheduler finds what its predecessor knew: a bound pod's gang, minimum and owners are those in its
# allocation, an unbound pod's those of its labels. What only this process remembers are members
# that succeeded and were deleted, and gangs of which all pods were deleted for a while.


#: The most runs of a group that are compared, and the most owners that are remembered after their
#: last pod.
MAX_RUNS, MAX_PAST = 256, 4096
#: The number of pods by profile and shape.
Shapes = Counter[tuple[str, Shape]]
#: creationTimestamp and arrival of a gang's first member; 0 without one.
First = tuple[str, int]
#: The number of needed members, the numbers of members by shape, the label of the topology domain
#: that they must share, and the nodes of those already in it.
Composition = tuple[int, frozenset[tuple[tuple[str, Shape], int]], str, tuple[NodeName, ...]]


class MemberRole(Enum):
    """A member's state in its gang."""

    GATED = auto()  # not to be tried
    BACKOFF = auto()  # not to be tried now; its minimum counts
    WAITING = auto()
    PREBINDING = auto()  # has a place; its Binding is not sent yet
    ASSUMED = auto()  # its Binding has no answer yet
    BOUND = auto()
    LEAVING = auto()  # is being deleted or evicted: no longer a member

    __hash__ = object.__hash__  # as that of PodState


# Python 3.11 takes 0.15 us to look up a member of an Enum, and each change of a member passes here.
_WAITING, _LEAVING = MemberRole.WAITING, MemberRole.LEAVING
_PREBINDING, _ASSUMED, _BOUND = MemberRole.PREBINDING, MemberRole.ASSUMED, MemberRole.BOUND
#: Members without a place: the largest minimum of them counts.
_ASKING = (MemberRole.BACKOFF, _WAITING)
#: Members that have a place and keep it.
PLACED = (_PREBINDING, _ASSUMED, _BOUND)
_NO_MEMBERS = dict.fromkeys(MemberRole, 0)

_ROLES = {
    PodState.GATED: MemberRole.GATED,
    PodState.BACKOFF: MemberRole.BACKOFF,
    PodState.DELEGATED: MemberRole.GATED,
    PodState.WAITING: MemberRole.WAITING,
    PodState.PREBINDING: MemberRole.PREBINDING,
    PodState.ASSUMED: MemberRole.ASSUMED,
    PodState.UNCONFIRMED: MemberRole.BOUND,
    PodState.BOUND: MemberRole.BOUND,
}


@dataclass(slots=True)
class Member:
    """One pod of a gang: its role, and the minimum in its labels."""

    record: Record
    role: MemberRole
    min_member: int
    shape: tuple[str, Shape]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too few members fit: how many do, which shapes do not, and why one more does not.

    The diagnosis is of the cluster with the fitting members in place. If all must be of one model,
    `by_model` says how many fit on each, most first, and the rest is about the first of them.
    `is_nowhere`: no node has the label of the domain that all must share. `limit`: not even an
    empty cluster would hold so many.
    """

    fitting: int
    lacking: tuple[tuple[Shape, int], ...]
    diagnosis: Diagnosis
    by_model: tuple[tuple[str, int], ...] = ()
    is_nowhere: bool = False
    limit: str = ""


@dataclass(slots=True, eq=False)
class Gang:
    """One run of one group. `quorum_met`: as many members as needed are bound, or were.

    While it `needs_quorum`, its waiting members can only be placed `need` at once. Otherwise each
    is placed alone: members above the minimum, and those that replace failed ones.
    """

    namespace: str
    name: str
    #: All runs of its group, in the order in which they were first seen.
    runs: dict["Gang", None]
    #: The owners of its members, the first first.
    owners: dict[str, None] = field(default_factory=dict)
    members: dict[PodUid, Member] = field(default_factory=dict)
    waiting: dict[PodUid, Record] = field(default_factory=dict)
    shapes: Shapes = field(default_factory=Counter)
    finished: dict[PodUid, FinishedMember] = field(default_factory=dict)
    counts: dict[MemberRole, int] = field(default_factory=_NO_MEMBERS.copy)
    #: How many members ask for each minimum, and how many have a place with it; never 0.
    asked: dict[int, int] = field(default_factory=dict)
    granted: dict[int, int] = field(default_factory=dict)
    #: Its first member; the one used for the members' keys; and the one used for their shape
    #: queues.
    first: First = ("", 0)
    keyed_by: First | None = None
    queued_by: First | None = None
    quorum_met: bool = False
    #: Whether the quorum was ever met: it may have been lost since.
    started: bool = False
    #: It has started, has no member with a place any more, and the others do not come back: those
    #: that are there are placed alone.
    goes_on: bool = False
    #: How many pods the group has, as the largest of its members' labels says; and whether so many
    #: were ever there.
    size: int = 0
    was_full: bool = False
    #: How many members succeeded; deleted ones count.
    done: int = 0
    #: Since when (s) no member came or went, and how many were there and leaving then.
    quiet_at: float = math.inf
    quiet_with: tuple[int, int] = (0, 0)
    #: Whether it was reported that another run has its group's name.
    is_warned: bool = False
    #: The minimum of its PodGroup object, None if there is none.
    declared: int | None = None
    #: Edits of that object after the first wait for the end of a pause, like those of a pod
    #: (`pod_records`). `pauses`: no member is in the queue until then. `is_divided`: some members
    #: have yet to leave the queue, or to be enqueued by the new object.
    edits: int = 0
    edits_rest_until: float = -math.inf
    pauses: bool = False
    is_divided: bool = False
    needs_quorum: bool = True
    need: int = 0
    #: Its sort key while it is together, and until when it is not queued.
    key: SortKey = ()
    rests_until: float = 0.0
    tries: int = 0
    #: The last report of its waiting members, and the members without it.
    diagnosis: Diagnosis | None = None
    unreported: dict[PodUid, None] = field(default_factory=dict)
    #: What it lacked at the last attempt, and when that was computed.
    shortage: Shortage | None = None
    short_at: float = -math.inf
    #: How many plans of preemption evicted others for it, and what to say of it if there were too
    #: many.
    plans: int = 0
    remark: str = ""
    #: Since when (s) all needed members are there and do not fit.
    short_since: float | None = None
    #: Whether `Gangs.take_touched` has returned it.
    is_known: bool = False
    #: When too few placed members are repaired, and whether that was tried before.
    repair_at: float | None = None
    replanned: bool = False

    @property
    def title(self) -> str:
        """Its name for people: that of its object without the API."""
        return self.name.rpartition("/")[2]

    @property
    def placed(self) -> int:
        """The number of members that have a place and keep it."""
        counts = self.counts
        return counts[_PREBINDING] + counts[_ASSUMED] + counts[_BOUND]

    def nodes(self) -> list[NodeName]:
        """The nodes of members that keep their places."""
        records = (member.record for member in self.members.values() if member.role in PLACED)
        return [record.node for record in records if record.node is not None]

    @property
    def owner(self) -> str:
        """The namespace whose share its attempts count toward."""
        return self.namespace

    @property
    def within(self) -> str:
        """The label of the domain that all must share, as a waiting member has it; "" if none."""
        within = ""
        for record in self.waiting.values():
            group = record.pod.group
            if group is not None and group.within > within:
                within = group.within
        return within

    @property
    def composition(self) -> Composition:
        """All that fitting depends on: gangs with equal compositions fit alike."""
        within = self.within
        nodes = tuple(sorted(set(self.nodes()))) if within else ()
        return self.need, frozenset(self.shapes.items()), within, nodes

    @property
    def min_member(self) -> int:
        """How many must start together: by its object, or the largest minimum of unplaced members.

        Labels of several pods cannot be changed at once; until all agree, none starts with fewer
        than it asks for.
        """
        if self.declared is not None:
            return self.declared
        return max(self.asked) if self.asked else min(self.granted, default=0)

    @property
    def alive(self) -> int:
        """The number of members that are there and do not leave."""
        return len(self.members) - self.counts[_LEAVING]

    @property
    def completed(self) -> int:
        """The members that succeeded and have no successor: with those that are there, `size`."""
        if not self.done:
            return 0
        size = self.declared if self.declared is not None else max(self.size, self.min_member)
        return max(0, min(self.done, size - self.alive))

    @property
    def is_short(self) -> bool:
        """Whether no member has a place and too few are there to start."""
        if not self.needs_quorum or self.placed:
            return False
        return self.alive + self.completed < self.min_member

    def other_runs(self) -> Iterator["Gang"]:
        """Other runs of its group that have members, of at most `MAX_RUNS` runs."""
        return (run for run in islice(self.runs, MAX_RUNS) if run is not self and run.members)

    def update(self) -> None:
        """Recompute what follows from the members."""
        placed, minimum, done, alive = self.placed, self.min_member, self.completed, self.alive
        self.need = 0
        if not placed:
            self.quorum_met = False
            if not alive or alive + done >= minimum:
                self.goes_on = False
        if not self.quorum_met:
            bound = self.counts[_BOUND]
            self.quorum_met = placed > 0 and (self.goes_on or bound + done >= minimum)
            is_alone = self.quorum_met or self.goes_on
            self.need = 0 if is_alone else max(0, minimum - placed - done)
        self.started = self.started or self.quorum_met
        self._note_full(alive + done, minimum)
        self.needs_quorum = minimum > 1 and self.need > 0
        if not self.needs_quorum or placed or alive + done >= minimum:  # it is not short
            self.quiet_at, self.quiet_with = math.inf, (0, 0)

    def recall(self) -> None:
        """After a restart: treat it as having run if it cannot be in the middle of a start.

        So it is if finished members make up for missing ones, and if too few pods exist for a
        start, because it lost members that once ran. An error here leaves cards to a failed start;
        an error in the other direction would end working pods.
        """
        bound, there = self.counts[MemberRole.BOUND], self.alive + self.completed
        ran = sum(one.had_node for one in self.finished.values())
        self.quorum_met = bound > 0 and (bound + ran >= self.min_member or there < self.min_member)
        self.started = self.quorum_met or ran > 0
        self._note_full(self.alive + len(self.finished), self.min_member)

    def _note_full(self, there: int, minimum: int) -> None:
        # A run that needs all of its pods to start has had them all once.
        needs_all = self.started and minimum >= self.size
        self.was_full = self.was_full or needs_all or there >= self.size > 0

    def put(self, uid: PodUid, member: Member) -> None:
        """Add a member, or update it."""
        if uid in self.members:
            self.drop(uid)
        role, minimum = member.role, member.min_member
        self.members[uid] = member
        self.counts[role] += 1
        member.record.gang_owners = self.owners
        group = member.record.pod.group
        size = minimum if group is None else group.headcount
        self.size = max(self.size, size)
        if role is _WAITING:
            self.waiting[uid] = member.record
            self.shapes[member.shape] += 1
            self.unreported[uid] = None
        minima = self._minima(role)
        if minima is not None:
            minima[minimum] = minima[minimum] + 1 if minimum in minima else 1

    def drop(self, uid: PodUid) -> None:
        """Remove a member."""
        member = self.members.pop(uid, None)
        if member is None:
            return
        role, minimum = member.role, member.min_member
        self.counts[role] -= 1
        if role is _WAITING:
            del self.waiting[uid]
            self.unreported.pop(uid, None)
            left = self.shapes[member.shape] - 1
            if left:
                self.shapes[member.shape] = left
            else:
                del self.shapes[member.shape]
        minima = self._minima(role)
        if minima is not None:
            minima[minimum] -= 1
            if not minima[minimum]:
                del minima[minimum]

    def _minima(self, role: MemberRole) -> dict[int, int] | None:
        """Where the minimum of a member with this role counts; None if it does not."""
        if role in PLACED:
            return self.granted
        return self.asked if role in _ASKING else None


@dataclass(frozen=True, slots=True)
class _PastRun:
    """What is remembered of a run that started, while it has no pods."""

    owners: tuple[str, ...]
    done: int
    was_full: bool


class Gangs:
    """All gangs. `touched` are those that changed since `take_touched`."""

    def __init__(self) -> None:
        #: The runs of each group.
        self.by_key: dict[GangKey, dict[Gang, None]] = {}
        self.touched: dict[Gang, None] = {}
        #: The PodGroup objects, and the minimum of each of their gangs.
        self.objects = GroupObjects()
        self._declared: dict[GangKey, int] = {}
        #: The gang of each member; to be read. Looked at for every pod, and nearly always empty.
        self.by_pod: dict[PodUid, Gang] = {}
        self._of_finished: dict[PodUid, Gang] = {}
        self._of_owner: dict[tuple[GangKey, str], Gang] = {}
        self._past: OrderedDict[tuple[GangKey, str], _PastRun] = OrderedDict()

    def of(self, uid: PodUid) -> Gang | None:
        """The gang of a pod, or None."""
        return self.by_pod.get(uid)

    def all(self) -> Iterator[Gang]:
        """All gangs, group by group."""
        for runs in self.by_key.values():
            yield from runs

    def declare(self, key: GangKey, minimum: int | None) -> Gang | None:
        """Set the minimum of a gang's object, None if there is none; the gang, if it has pods."""
        self._declared.pop(key, None)
        if minimum is not None:
            self._declared[key] = minimum
        runs = self.by_key.get(key, {})
        for gang in runs:
            gang.declared = minimum
            self.touched[gang] = None
        return _with_members(runs)

    def pauses(self, pod: Pod) -> bool:
        """Whether the pod belongs to a gang whose PodGroup is edited again and again."""
        if pod.group_reference is None:
            return False
        key = (pod.key.namespace, pod.group_reference.gang)
        gang = _with_members(self.by_key.get(key, {}))
        return gang is not None and gang.pauses

    def record_member(self, record: Record) -> Gang | None:
        """Record the present state of a pod that names a group or is a member.

        Its gang, or None.
        """
        pod, allocation = record.pod, record.allocation
        key, member = _membership(record)
        gang = self.by_pod.get(pod.uid)
        if gang is not None and (member is None or key != (gang.namespace, gang.name)):
            self._leave(gang, pod.uid)
            gang = None
        if member is None:
            return None
        if gang is None:
            gang = self.by_pod[pod.uid] = self._find_or_create_gang(key, pod.owner)
        if record.node is not None and allocation is not None and allocation.group_owners:
            self._join_owners(gang, allocation.group_owners)
        known = gang.members.get(pod.uid)
        if known is None or known != member:
            gang.put(pod.uid, member)
            first = (pod.created, record.arrived)
            if not gang.first[1] or first < gang.first:
                gang.first = first
            self.touched[gang] = None
        return gang

    def gone(self, uid: PodUid) -> None:
        """The pod was deleted, or has finished; in the latter case `finish` comes first."""
        gang = self.by_pod.get(uid)
        if gang is not None:
            self._leave(gang, uid)

    def drop(self, uid: PodUid) -> None:
        """Remove a pod that changed, before it is recorded anew."""
        gang = self.by_pod.get(uid)
        if gang is not None:
            gang.drop(uid)
            self.touched[gang] = None

    def finish(self, uid: PodUid, member: FinishedMember | None) -> None:
        """A pod finished as this member; None: it was deleted. Its success counts for its gang."""
        known = self._of_finished.get(uid)
        if member is None:
            if known is not None:
                self._forget(uid)
        elif known is None or known.finished[uid] != member:
            gang = known or self.by_pod.get(uid)
            key = (member.namespace, member.group)
            if gang is None or (gang.namespace, gang.name) != key:
                gang = self._of_owner.get((key, member.owner)) or self._new(key, member.owner)
            self._join_owners(gang, member.group_owners)
            before = gang.finished.get(uid)
            gang.done += member.succeeded - (before is not None and before.succeeded)
            self._of_finished[uid], gang.finished[uid] = gang, member
            self.touched[gang] = None

    def finished_are(
        self, listed: Iterable[FinishedMember], unreadable: Container[PodUid] = ()
    ) -> None:
        """Set all finished members, from a list; what is known of `unreadable` pods stays."""
        found = {member.uid: member for member in listed}
        gone = (uid for uid in self._of_finished if uid not in found and uid not in unreadable)
        for uid in [*gone]:
            self._forget(uid)
        for member in found.values():
            self.finish(member.uid, member)

    def recall(self) -> None:
        """After the first list: which gangs ran before this process began."""
        for gang in self.all():
            gang.recall()

    def unite(self, gang: Gang, now: float) -> bool:
        """Make a gang that is short one run with others of its group; whether it is now.

        Those are other short runs that have not started, the oldest first, if no owner has made a
        pod for a while and all together are enough, and no more than the group has. Else it is a
        run that has started without all of the group's pods, as far as some were never there.
        """
        parts, count = [], 0
        for run in islice(gang.runs, MAX_RUNS):
            is_part = run.is_short and not run.started and now >= run.quiet_at
            if is_part and count + run.alive <= gang.size:
                parts.append(run)
                count += run.alive
        if gang in parts and count >= gang.min_member:
            for part in parts[1:]:
                self._merge(part, parts[0])
            return True
        for run in gang.other_runs():
            there = run.alive + run.completed + gang.alive
            if run.started and not run.was_full and there <= run.size:
                self._merge(gang, run)
                return True
        return False

    def take_touched(self) -> list[Gang]:
        """The changed gangs, updated; gangs without members are dropped."""
        touched = list(self.touched)
        self.touched.clear()
        for gang in touched:
            gang.update()
            gang.is_known = True
            if not gang.members and not gang.finished:
                self._drop(gang)
        return touched

    def finished_members(self) -> tuple[FinishedMember, ...]:
        """All finished members that were not deleted yet."""
        return tuple(gang.finished[uid] for uid, gang in self._of_finished.items())

    # --- inside --------------------------------------------------------------------------------

    def _find_or_create_gang(self, key: GangKey, owner: str) -> Gang:
        """The gang that a new member of this owner joins; a new one if there is none."""
        gang = self._of_owner.get((key, owner))
        if "/" in key[1]:  # an object says that all belong together, whatever their owners
            gang = _with_members(self.by_key.get(key, {})) or gang
        elif gang is not None and not owner and not gang.members and gang.done >= gang.size:
            gang = None  # all pods without an owner are done: these are for the next run
        if gang is None:
            return self._new(key, owner)
        self._own(gang, owner)
        return gang

    def _new(self, key: GangKey, owner: str) -> Gang:
        """A new run, or one that had no pods for a while."""
        runs = self.by_key.setdefault(key, {})
        gang = Gang(*key, runs, declared=self._declared.get(key))
        runs[gang] = None
        past = self._past.pop((key, owner), None)
        self._own(gang, owner)
        if past is not None:
            gang.started, gang.done, gang.was_full = True, past.done, past.was_full
            for other in past.owners:
                self._past.pop((key, other), None)
                if (key, other) not in self._of_owner:
                    self._own(gang, other)
        return gang

    def _own(self, gang: Gang, owner: str) -> None:
        gang.owners[owner] = None
        self._of_owner[(gang.namespace, gang.name), owner] = gang

    def _join_owners(self, gang: Gang, owners: Iterable[str]) -> None:
        """Let these owners run the gang together, as the allocation of a bound member says."""
        for owner in owners:
            other = self._of_owner.get(((gang.namespace, gang.name), owner))
            if other is None:
                self._own(gang, owner)
            elif other is not gang:
                self._merge(other, gang)

    def _merge(self, part: Gang, whole: Gang) -> None:
        """From now on all of `part` belongs to `whole`."""
        for uid, member in [*part.members.items()]:
            part.drop(uid)
            whole.put(uid, member)
            self.by_pod[uid] = whole
        for uid, finished in part.finished.items():
            whole.finished[uid] = finished
            self._of_finished[uid] = whole
        for owner in part.owners:
            self._own(whole, owner)
        firsts = [first for first in (part.first, whole.first) if first[1]]
        whole.first = min(firsts, default=whole.first)
        whole.done += part.done
        whole.started = whole.started or part.started
        whole.quorum_met = whole.quorum_met or part.quorum_met
        # Members are queued by their gang's age: all of them anew.
        whole.keyed_by = whole.queued_by = None
        part.finished, part.owners, part.done = {}, {}, 0
        self._lost_one(part)
        self.touched[whole] = None

    def _forget(self, uid: PodUid) -> None:
        gang = self._of_finished.pop(uid)
        del gang.finished[uid]
        self._lost_one(gang)

    def _leave(self, gang: Gang, uid: PodUid) -> None:
        gang.drop(uid)
        del self.by_pod[uid]
        self._lost_one(gang)

    def _lost_one(self, gang: Gang) -> None:
        if not gang.members and not gang.finished:
            gang.first = ("", 0)  # a later gang of that name is not as old
            if not gang.is_known:  # while another scheduler leads, perhaps for weeks
                self.touched.pop(gang, None)
                self._drop(gang)
                return
        self.touched[gang] = None

    def _drop(self, gang: Gang) -> None:
        key = (gang.namespace, gang.name)
        runs = self.by_key.get(key, {})
        runs.pop(gang, None)
        if not runs and self.by_key.pop(key, None) is not None:
            self.objects.forget(key)
        for owner in gang.owners:
            if self._of_owner.get((key, owner)) is gang:
                del self._of_owner[key, owner]
                if gang.started and _is_uid(owner):
                    self._past[key, owner] = _PastRun(tuple(gang.owners), gang.done, gang.was_full)
        while len(self._past) > MAX_PAST:
            self._past.popitem(last=False)


def _with_members(runs: Iterable[Gang]) -> Gang | None:
    """The first of these runs that has members; None if none has."""
    return next((run for run in runs if run.members), None)


def _is_uid(owner: str) -> bool:
    """Whether the owner can have no successor of the same name (`manifests.pods.pod.run_owner`)."""
    return bool(owner) and "/" not in owner


def _membership(record: Record) -> tuple[GangKey, Member | None]:
    """A pod's gang, and its membership in it."""
    pod, allocation = record.pod, record.allocation
    name, minimum = "", 0
    if record.node is not None:
        if allocation is not None and allocation.group is not None:
            name, minimum = allocation.group, allocation.min_available
    elif pod.group is not None:
        name, minimum = pod.group.name, pod.group.min_available
    elif pod.group_reference is not None:
        # Gated until its object is there: what it asks for does not count yet.
        name, minimum = pod.group_reference.gang, 1
    key = (pod.key.namespace, name)
    if not name or not minimum:
        return key, None
    leaving = pod.deleting or record.evicted
    role = MemberRole.LEAVING if leaving else _ROLES[record.state]
    if role is MemberRole.BACKOFF and pod.group_reference is not None:
        role = MemberRole.GATED  # its object, while there is one, has the minimum
    return key, Member(record, role, minimum, (pod.scheduler_name, record.shape))
