"""Pod groups whose members must start together: their members, and how many more they need.

It records, and decides nothing. All of it follows from the existing pods, so a restarted scheduler
finds what its predecessor knew: a bound pod's gang and minimum are those in its allocation, an
unbound pod's those of its labels.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.events import FinishedMember
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.scheduling.queue.group_objects import GangKey, GroupObjects
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import PodState, Record

K = TypeVar("K")
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


#: Members without a place: the largest minimum of them counts.
_ASKING = (MemberRole.BACKOFF, MemberRole.WAITING)
#: Members that have a place and keep it.
PLACED = (MemberRole.PREBINDING, MemberRole.ASSUMED, MemberRole.BOUND)

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
    """One group of one namespace. `met`: as many members as needed are bound, or were.

    While it is `together`, its waiting members can only be placed `need` at once. Otherwise each is
    placed alone: members above the minimum, and those that replace failed ones.
    """

    namespace: str
    name: str
    members: dict[PodUid, Member] = field(default_factory=dict)
    waiting: dict[PodUid, Record] = field(default_factory=dict)
    shapes: Shapes = field(default_factory=Counter)
    finished: dict[PodUid, FinishedMember] = field(default_factory=dict)
    counts: Counter[MemberRole] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)
    granted: Counter[int] = field(default_factory=Counter)
    #: Its first member; the one used for the members' keys; and the one used for their shape
    #: queues.
    first: First = ("", 0)
    keyed_by: First | None = None
    queued_by: First | None = None
    quorum_met: bool = False
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
        return sum(self.counts[role] for role in PLACED)

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
        groups = (record.pod.group for record in self.waiting.values())
        return max((group.within for group in groups if group is not None), default="")

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
    def completed(self) -> int:
        """The members that succeeded, without those of an earlier run of that name."""
        if not self.finished:
            return 0
        owners = {member.record.pod.owner for member in self.members.values()}
        return sum(one.succeeded and one.owner in owners for one in self.finished.values())

    def update(self) -> None:
        """Recompute what follows from the members."""
        placed, minimum = self.placed, self.min_member
        self.need = 0
        if not placed:
            self.quorum_met = False
        if not self.quorum_met:
            done = self.completed
            self.quorum_met = placed > 0 and self.counts[MemberRole.BOUND] + done >= minimum
            self.need = 0 if self.quorum_met else max(0, minimum - placed - done)
        self.needs_quorum = minimum > 1 and self.need > 0

    def recall(self) -> None:
        """After a restart: treat it as having run if it cannot be in the middle of a start.

        So it is if finished members make up for missing ones, and if too few pods exist for a
        start, because it lost members that once ran. An error here leaves cards to a failed start;
        an error in the other direction would end working pods.
        """
        bound = self.counts[MemberRole.BOUND]
        owners = {member.record.pod.owner for member in self.members.values()}
        ran = sum(one.had_node and one.owner in owners for one in self.finished.values())
        there = len(self.members) - self.counts[MemberRole.LEAVING] + self.completed
        self.quorum_met = bound > 0 and (bound + ran >= self.min_member or there < self.min_member)

    def put(self, uid: PodUid, member: Member) -> None:
        """Add a member, or update it."""
        self.drop(uid)
        self.members[uid] = member
        self.counts[member.role] += 1
        if member.role is MemberRole.WAITING:
            self.waiting[uid] = member.record
            self.shapes[member.shape] += 1
            self.unreported[uid] = None
        if member.role in _ASKING:
            _add(self.asked, member.min_member, 1)
        elif member.role in PLACED:
            _add(self.granted, member.min_member, 1)

    def drop(self, uid: PodUid) -> None:
        """Remove a member."""
        member = self.members.pop(uid, None)
        if member is None:
            return
        self.counts[member.role] -= 1
        if member.role is MemberRole.WAITING:
            del self.waiting[uid]
            self.unreported.pop(uid, None)
            _add(self.shapes, member.shape, -1)
        if member.role in _ASKING:
            _add(self.asked, member.min_member, -1)
        elif member.role in PLACED:
            _add(self.granted, member.min_member, -1)


class Gangs:
    """All gangs. `touched` are those that changed since `take_touched`."""

    def __init__(self) -> None:
        self.by_key: dict[GangKey, Gang] = {}
        self.touched: dict[Gang, None] = {}
        #: The PodGroup objects, and the minimum of each of their gangs.
        self.objects = GroupObjects()
        self._declared: dict[GangKey, int] = {}
        self._of: dict[PodUid, Gang] = {}
        self._of_finished: dict[PodUid, Gang] = {}

    def of(self, uid: PodUid) -> Gang | None:
        """The gang of a pod, or None."""
        return self._of.get(uid)

    def declare(self, key: GangKey, minimum: int | None) -> Gang | None:
        """Set the minimum of a gang's object, None if there is none; the gang, if it has pods."""
        self._declared.pop(key, None)
        if minimum is not None:
            self._declared[key] = minimum
        gang = self.by_key.get(key)
        if gang is not None:
            gang.declared = minimum
            self.touched[gang] = None
        return gang

    def pauses(self, pod: Pod) -> bool:
        """Whether the pod belongs to a gang whose PodGroup is edited again and again."""
        if pod.group_reference is None:
            return False
        gang = self.by_key.get((pod.key.namespace, pod.group_reference.gang))
        return gang is not None and gang.pauses

    def file(self, record: Record) -> Gang | None:
        """Record a pod's present state; its gang, or None."""
        pod, allocation = record.pod, record.allocation
        named = pod.group is not None or pod.group_reference is not None
        named = named or (allocation is not None and allocation.group is not None)
        if not named and (not self._of or pod.uid not in self._of):
            return None  # nearly always
        key, member = _membership(record)
        gang = self._of.get(pod.uid)
        if gang is not None and (member is None or key != (gang.namespace, gang.name)):
            self._leave(gang, pod.uid)
            gang = None
        if member is None:
            return None
        if gang is None:
            gang = self._of[pod.uid] = self._gang(key)
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
        gang = self._of.get(uid)
        if gang is not None:
            self._leave(gang, uid)

    def drop(self, uid: PodUid) -> None:
        """Remove a pod that changed, before it is filed anew."""
        gang = self._of.get(uid)
        if gang is not None:
            gang.drop(uid)
            self.touched[gang] = None

    def finish(self, uid: PodUid, member: FinishedMember | None) -> None:
        """A pod finished as this member, whose success counts until it is deleted; None: it was."""
        known = self._of_finished.get(uid)
        if member is None:
            if known is not None:
                self._forget(uid)
        elif known is None or known.finished[uid] != member:
            gang = self._of_finished[uid] = self._gang((member.namespace, member.group))
            gang.finished[uid] = member
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
        for gang in self.by_key.values():
            gang.recall()

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

    def _gang(self, key: GangKey) -> Gang:
        gang = self.by_key.get(key)
        if gang is None:
            gang = self.by_key[key] = Gang(*key, declared=self._declared.get(key))
        return gang

    def _forget(self, uid: PodUid) -> None:
        gang = self._of_finished.pop(uid)
        del gang.finished[uid]
        self._lost_one(gang)

    def _leave(self, gang: Gang, uid: PodUid) -> None:
        gang.drop(uid)
        del self._of[uid]
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
        self.by_key.pop(key, None)
        self.objects.forget(key)


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


def _add(counter: Counter[K], what: K, count: int) -> None:
    """Count, and keep no zeros."""
    counter[what] += count
    if not counter[what]:
        del counter[what]
