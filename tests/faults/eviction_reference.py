"""Who was evicted, and whether anybody was there for whom that was right: from what pods say.

Ranks are those of the pods' own fields. Nothing here asks the scheduler.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.faults.gang_reference import group, is_over, leaves, minimum

Json = dict[str, Any]

#: Whoever waited so long ago (s) may have been the reason: requests are late, watches silent.
RECENT_S = 60.0
#: A Binding that was decided is stored by then (s), where nothing goes wrong.
UNDER_WAY_S = 5.0
_BY = re.compile(
    r"Preempted by (?:a )?pod( group)? "
    r"(?:(\S+)|of another namespace with higher priority \((?:uid|with pod) (\S+)\))"
    r" on node (\S+)"
)


class EvictionReference:
    """Of all pods there ever were; `evicted` are those told that others take their place."""

    def __init__(self) -> None:
        self.evicted: dict[str, Json] = {}
        self._known: dict[str, Json] = {}
        #: Until when pods waited: for ever if they still do.
        self._waited: dict[str, float] = {}
        self._present: dict[str, Json] = {}
        self._gangs: defaultdict[str, set[str]] = defaultdict(set)

    def seen(self, pod: Json, now: float) -> Iterator[str]:
        """A pod as it is now (loop time, s); answers with what is wrong about it."""
        uid = pod["metadata"]["uid"]
        self._known[uid] = self._present[uid] = pod
        if group(pod):
            self._gangs[group(pod)].add(uid)
        self._note_waiting(uid, now, waits=not pod["spec"].get("nodeName"))
        if uid in self.evicted or not _is_told_to_go(pod):
            return
        self.evicted[uid] = pod
        if not pod["spec"].get("nodeName"):
            yield f"{_name(pod)} was evicted and had no place"
        lately = [uid for uid, until in self._waited.items() if until > now - RECENT_S]
        if not any(gives_way(pod, self._known[other]) for other in lately):
            yield f"{_name(pod)} was evicted, and nobody above it waits"

    def gone(self, uid: str, now: float) -> None:
        """A pod that was deleted."""
        pod = self._present.pop(uid, None)
        if pod is not None and group(pod):
            self._gangs[group(pod)].discard(uid)
        self._note_waiting(uid, now, waits=False)

    def _note_waiting(self, uid: str, now: float, *, waits: bool) -> None:
        if waits:
            self._waited[uid] = math.inf
        elif self._waited.get(uid) == math.inf:
            self._waited[uid] = now

    def names(self) -> set[str]:
        """Of all that were evicted."""
        return {_name(pod) for pod in self.evicted.values()}

    def may_go(self, preemptor: Json) -> set[str]:
        """Who could be evicted for a pod: of gangs all that are left, or nobody."""
        if preemptor["spec"].get("preemptionPolicy") == "Never":
            return set()
        able = {
            uid for uid, pod in self._present.items() if _stays(pod) and gives_way(pod, preemptor)
        }
        for name, uids in self._gangs.items():
            staying = {uid for uid in uids if _stays(self._present[uid])}
            if name == group(preemptor) or not staying <= able:
                able -= uids
        return able

    def nominations(self) -> list[str]:
        """Pods that say that a place is kept for them, and are not over."""
        found = [pod for pod in self._present.values() if not is_over(pod)]
        return [f"{_name(pod)} is nominated" for pod in found if _is_nominated(pod)]

    def torn(self) -> list[str]:
        """Gangs that lost members by evictions and whose others go on, too few of them."""
        found = []
        for name in {group(pod) for pod in self.evicted.values()} - {""}:
            members = [self._present[uid] for uid in self._gangs[name]]
            staying = [pod for pod in members if _stays(pod)]
            ended = sum(pod["status"].get("phase") == "Succeeded" for pod in members)
            if staying and len(staying) + ended < minimum(staying[0]):
                found.append(f"{name} was left with {len(staying)}")
        return found

    def unplanned(self, plans: Iterable[Json]) -> list[str]:
        """Evicted pods that no plan named, as schedulers logged their plans."""
        planned = {uid for plan in plans for uid in plan["victim_uids"]}
        return [
            f"{_name(pod)} was evicted without a plan"
            for uid, pod in self.evicted.items()
            if uid not in planned
        ]

    def keepers(self, uid: str) -> list[tuple[Json, set[str]]]:
        """Waiting pods that are not outranked by this one, with the cards kept for them."""
        pod, found = self._known[uid], []
        for other, until in self._waited.items():
            keeper = self._present.get(other)
            if until != math.inf or keeper is None or other == uid:
                continue
            cards = keeper["metadata"].get("annotations", {}).get("sharedgpu/earmark", "")
            mates = group(pod) and group(pod) == group(keeper)
            if cards and not mates and not _outranks(pod, keeper):
                found.append((keeper, {*cards.split(",")}))
        return found

    def waits_still(self, uid: str, since: float) -> bool:
        """Whether a pod waited for long after that: no Binding was under way."""
        return self._waited.get(uid, 0.0) > since + UNDER_WAY_S

    def undue(self, events: Iterable[Json]) -> Iterator[str]:
        """Evictions, as events tell them, of pods that need not have given way."""
        for victim, preemptors, _ in self._told(events):
            if not any(gives_way(victim, one) for one in preemptors):
                yield f"{_name(victim)} was evicted for {list(map(_name, preemptors))}"

    def in_vain(self, events: Iterable[Json]) -> list[str]:
        """Evictions, as events tell them, of which nobody had anything: of gangs as a whole."""
        useful: dict[str, bool] = {}
        for victim, preemptors, node in self._told(events):
            here = any(one["spec"].get("nodeName") == node for one in preemptors)
            name = group(victim) or _name(victim)
            useful[name] = useful.get(name, False) or here
        return [f"{name} was evicted in vain" for name, was in useful.items() if not was]

    def _told(self, events: Iterable[Json]) -> Iterator[tuple[Json, list[Json], str]]:
        """Of each event of an eviction: the victim, for whom it went, and from which node."""
        for event in events:
            if event["reason"] != "Preempted":
                continue
            found = _BY.fullmatch(event["note"])
            assert found is not None, event["note"]
            of_gang, named, uid, node = found.groups()
            if of_gang:
                name = group(self._known[uid]) if uid else named.partition("/")[2]
                preemptors = [pod for pod in self._known.values() if group(pod) == name]
            else:
                preemptors = [
                    pod for other, pod in self._known.items() if uid == other or named == _key(pod)
                ]
            yield self._known[event["regarding"]["uid"]], preemptors, node


def _outranks(pod: Json, keeper: Json) -> bool:
    """Whether a pod may take cards that are kept for another one."""
    above = pod["spec"].get("priority", 0) > keeper["spec"].get("priority", 0)
    return bool(above) and pod["spec"].get("preemptionPolicy") != "Never"


def gives_way(pod: Json, preemptor: Json) -> bool:
    """By priority, and by the label only among neighbours."""
    if preemptor["spec"].get("preemptionPolicy") == "Never":
        return False
    mine, other = pod["spec"].get("priority", 0), preemptor["spec"].get("priority", 0)
    if mine != other:
        return bool(mine < other)
    neighbours = pod["metadata"]["namespace"] == preemptor["metadata"]["namespace"]
    return neighbours and _label(pod) <= 0 < _label(preemptor)


def _label(pod: Json) -> int:
    return int(pod["metadata"].get("labels", {}).get("sharedgpu/priority", 0))


def _is_told_to_go(pod: Json) -> bool:
    return any(
        one["type"] == "DisruptionTarget" and one.get("reason") == "PreemptionByScheduler"
        for one in pod["status"].get("conditions", [])
    )


def _is_nominated(pod: Json) -> bool:
    marks = pod["metadata"].get("annotations", {})
    return bool(pod["status"].get("nominatedNodeName") or marks.get("sharedgpu/earmark"))


def _stays(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and not is_over(pod) and not leaves(pod)


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{_name(pod)}"


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
