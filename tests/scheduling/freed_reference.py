"""Books of what preemption frees: for which preemptor, and whether another one gets it.

From events and effects alone; of the machine it is only asked which preemptors it still has a plan
for, so that it may give one up.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kubeshare_py.domain.effects import Bind, Effect, Evict, Preempt, Preemptor
from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone, PodsListed
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.preemption.preemption import REASON
from tests.making import of
from tests.scheduling.preemption_reference import PreemptionReference

#: Milli and bytes by card.
Amounts = dict[str, tuple[int, int]]
MAX_PLANS = 5


@dataclass
class Freed:
    """What goes for one preemptor: `victims` and what they hold, `free` what they held."""

    preemptor: Preemptor
    nominees: set[PodUid]
    victims: dict[PodUid, tuple[Pod, Amounts]] = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)


@dataclass
class FreedReference(PreemptionReference):
    """`tempted` counts pods that had room only where something is kept: there must be some."""

    plans: dict[Preemptor, Freed] = field(default_factory=dict)
    #: By uid of a pod or of a gang's first member: how many plans evicted others for it.
    evicting: dict[tuple[str, str, PodUid], int] = field(default_factory=dict)
    tempted: int = 0
    #: All that a plan ever said to evict: of a gang they are asked again when the plan is over.
    planned: set[PodUid] = field(default_factory=set)

    def told(
        self, event: Event, effects: Sequence[Effect], waiting: Collection[PodUid]
    ) -> list[str]:
        """An event and its effects, after all other books; what was wrong about it.

        `waiting`: for which pods there are plans now.
        """
        self._note_departures(event)
        self._forget_broken_cards()
        found = self._check_binds(effects, waiting)
        found += self._check_evictions(effects)
        if isinstance(event, BindSlotsFree):
            self._note_tempted()
            for preemptor, freed in list(self.plans.items()):
                if not freed.nominees & {*waiting} and not self._is_unanswered(freed):
                    del self.plans[preemptor]
        return found

    def _note_tempted(self) -> None:
        free = [freed for freed in self.plans.values() if freed.free]
        nominees = {uid for freed in free for uid in freed.nominees}
        for pod in self.waiting() if free else ():
            if pod.uid not in nominees and pod.shape.claims:
                self.tempted += self.fits_somewhere(pod) is not None

    def _is_unanswered(self, freed: Freed) -> bool:
        held = [self.held.get(uid) for uid in freed.nominees]
        return any(one is not None and not one.settled for one in held)

    def _note_departures(self, event: Event) -> None:
        gone: set[PodUid] = set()
        if isinstance(event, PodGone):
            gone = {event.uid}
        elif isinstance(event, PodsListed):
            listed = {pod.uid for pod in event.pods}
            gone = {uid for one in self.plans.values() for uid in one.victims} - listed
        for freed in self.plans.values():
            for uid in gone & freed.victims.keys():
                for card, amount in freed.victims[uid][1].items():
                    before = freed.free.get(card, (0, 0))
                    freed.free[card] = before[0] + amount[0], before[1] + amount[1]
                freed.victims[uid] = freed.victims[uid][0], {}

    def _forget_broken_cards(self) -> None:
        """What a preemptor could not use anyhow is not kept for it."""
        usable = {
            uuid
            for name, cards in self.cards.items()
            for uuid, gpu in cards.items()
            if gpu.healthy and name in self.nodes and not self.nodes[name].unschedulable
        }
        for freed in self.plans.values():
            freed.free = {card: free for card, free in freed.free.items() if card in usable}

    # --- Binds ---------------------------------------------------------------------------------

    def _check_binds(self, effects: Sequence[Effect], waiting: Collection[PodUid]) -> list[str]:
        found = []
        binds = of(Bind, effects)
        for number, bind in enumerate(binds):
            later = {other.uid for other in binds[number + 1 :]}
            for freed in self.plans.values():
                if freed.nominees & (later | {*waiting}) and bind.uid not in freed.nominees:
                    found += self._check_bind(bind, freed)
        return found

    def _check_bind(self, bind: Bind, freed: Freed) -> list[str]:
        """Of what is free now, whatever this pod holds, as much must be left as was freed."""
        pod, taken = self.pods[bind.uid], []
        for card in bind.allocation.cards:
            milli, memory = freed.free.get(card.uuid, (0, 0))
            left = self._left(bind, card.uuid, freed.nominees)
            short = max(0, milli - left[0]), max(0, memory - left[1])
            if not any(short) or not (card.milli or card.memory_bytes):
                continue
            if self._outranks(pod, freed):
                freed.free[card.uuid] = milli - short[0], memory - short[1]
            else:
                taken.append(f"{pod.key} took {short} of {card.uuid} from {freed.preemptor}")
        return taken

    def _left(self, bind: Bind, uuid: str, nominees: set[PodUid]) -> tuple[int, int]:
        """What is free of a card, but for what the nominees got, maybe in the same iteration."""
        gpu = self.cards[bind.node][uuid]
        shares = [
            card
            for uid, held in self.held.items()
            if held.allocation is not None and uid not in nominees
            for card in held.allocation.cards
            if card.uuid == uuid
        ]
        milli = 1000 - sum(card.milli for card in shares)
        return milli, gpu.memory_bytes - sum(card.memory_bytes for card in shares)

    def _outranks(self, pod: Pod, freed: Freed) -> bool:
        if pod.priority <= freed.preemptor.priority:
            return False
        if all(self._claims_nothing(uid) for uid in freed.nominees):
            return True
        victims = [one for one, _ in freed.victims.values()]
        return pod.preempts and all(pod.priority > one.priority for one in victims)

    def _claims_nothing(self, uid: PodUid) -> bool:
        return uid not in self.pods or not self.pods[uid].shape.claims

    # --- evictions -----------------------------------------------------------------------------

    def _check_evictions(self, effects: Sequence[Effect]) -> list[str]:
        """Exactly the victims of a plan are asked to go when it begins, and others never."""
        found, new = [], set()
        for effect in effects:
            if isinstance(effect, Preempt):
                found += self._plan(effect)
                new |= {victim.uid for victim in effect.plan.victims}
        asked = {one.uid for one in effects if isinstance(one, Evict) and one.reason == REASON}
        self.planned |= new
        found += [f"{uid} was to go, and was not asked" for uid in sorted(new - asked)]
        found += [f"{uid} was evicted without a plan" for uid in sorted(asked - self.planned)]
        return found

    def _plan(self, effect: Preempt) -> list[str]:
        plan = effect.plan
        freed = self.plans.get(plan.preemptor)
        if freed is None:
            freed = self.plans[plan.preemptor] = Freed(plan.preemptor, set())
        freed.nominees = {place.uid for place in plan.nominations}
        for victim in plan.victims:
            held = self.held[victim.uid].allocation
            cards = held.cards if held is not None else ()
            amounts: Amounts = {card.uuid: (card.milli, card.memory_bytes) for card in cards}
            freed.victims[victim.uid] = self.pods[victim.uid], amounts
        key = (plan.preemptor.namespace, plan.preemptor.name, effect.uid)
        self.evicting[key] = self.evicting.get(key, 0) + bool(plan.victims)
        many = self.evicting[key] > MAX_PLANS
        return [f"{key} evicted others {self.evicting[key]} times"] if many else []
