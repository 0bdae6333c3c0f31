"""Any history with reservations: no later pod takes them, nothing is left of them, gangs are
placed."""

import pytest

from kubeshare_py.domain.effects import Bind, Evict
from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone
from kubeshare_py.domain.identity import PodUid
from tests.making import a_machine, of
from tests.making.world import GangWorld
from tests.scale import seeds
from tests.scheduling.gang_reference import GangReference, Key
from tests.scheduling.pod_groups.test_any_gang_history import some_gang_steps

AFTER_S = 15.0
#: Of each holder where it stands, and its places: pod, node, cards, and whether they are shares.
Holders = dict[Key, dict[PodUid, tuple[str, tuple[tuple[str, int], ...]]]]


class ReservationReference(GangReference):
    """Of reservations nothing is told: who has them is asked, what follows from that is not."""

    before: Holders
    after: Holders

    def fits(self, name: str) -> bool:
        """Of gangs behind a holder nothing is said."""
        if not super().fits(name):
            return False
        return not any(key < self.key(name) for key in (*self.before, *self.after))

    def later_pods_took(self, binds: list[Bind]) -> list[Bind]:
        """Whoever took a share of a card that belonged to somebody before it all the time."""
        taken = []
        for bind in binds:
            pod = self.pods[bind.uid]
            mine = self.key_alone(pod)
            for key, places in self.before.items():
                if key < mine and self.after.get(key) == places and self._takes(bind, key):
                    taken.append(bind)
        return taken

    def _takes(self, bind: Bind, key: Key) -> bool:
        whole = {
            uuid for _, cards in self.before[key].values() for uuid, milli in cards if milli == 1000
        }
        return any(card.uuid in whole and card.milli for card in bind.allocation.cards)


class ReservationWorld(GangWorld):
    """A world whose machine gives reservations soon."""

    reference: ReservationReference

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        self.machine = a_machine(name=f"test-{self.count}", reservation_after_s=AFTER_S)
        self.reference = ReservationReference()
        self.reference.before = self.reference.after = {}

    def tell(self, event: Event) -> None:
        self.reference.before = self.holders()
        effects = self.machine.handle(event, self.now)
        self.reference.after = self.holders()
        self.held += len(self.reference.after)
        self.reference.event(event, self.now)
        self.log.append((event, self.now, tuple(effects)))
        new = [e for e in effects if isinstance(e, Bind) and e.uid not in self.reference.held]
        assert self.reference.later_pods_took(new) == []
        self.reference.effects(effects)
        self.sent += of(Bind, effects)
        self.evictions += [effect.uid for effect in effects if isinstance(effect, Evict)]
        if isinstance(event, BindSlotsFree):
            assert len(of(Bind, effects)) <= event.slots + len(self.sent)
            self.check_shown()

    def holders(self) -> Holders:
        charges = self.machine.ledger.reservations
        found: Holders = {}
        for reservation in self.machine.reservations.holders:
            found[reservation.key] = {}
            for uid in reservation.uids:
                allocation = charges[uid].allocation
                cards = allocation.cards if allocation is not None else ()
                shares = tuple((card.uuid, card.milli) for card in cards)
                found[reservation.key][uid] = (charges[uid].node, shares)
        return found

    def check_shown(self) -> None:
        """Reservations are those of one holder that waits, and real use is what the books say."""
        ledger, columns = self.machine.ledger, self.machine.ledger.columns
        assert len(self.machine.reservations.holders) <= 1
        owned = [
            uid for reservation in self.machine.reservations.holders for uid in reservation.uids
        ]
        assert sorted(ledger.reservations) == sorted(owned)
        assert {*owned} <= {pod.uid for pod in self.reference.waiting()}
        assert columns.reservations.sum() == sum(
            len(charge.allocation.cards)
            for charge in ledger.reservations.values()
            if charge.allocation
        )

    def empty(self) -> None:
        """Every pod is deleted."""
        for uid in sorted(self.stored):
            del self.stored[uid]
            self.tell(PodGone(uid))
        self.sent.clear()
        self.tell(BindSlotsFree(64))
        self.tell(BindSlotsFree(64))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_reservations_are_taken_by_nobody_else_and_leave_nothing(seed: int) -> None:
    held = 0
    for number in range(4):
        world = ReservationWorld().run(some_gang_steps(seed * 1000 + number, 80))
        held += world.held
        for name in world.reference.names():
            assert not world.reference.fits(name), f"{name} fits and waits"
        world.empty()
        columns = world.machine.ledger.columns
        assert not world.machine.reservations
        for column in ("reservations", "reserved_milli", "reserved_bytes"):
            assert not getattr(columns, column).any()
    assert held, "nobody ever had reservations"


@pytest.mark.slow
def test_the_same_history_gives_the_same_effects_again() -> None:
    world = ReservationWorld().run(some_gang_steps(7, 120))
    world.expect_same_effects(a_machine(name=world.machine.name, reservation_after_s=AFTER_S))
