"""Each daemon runs once, as long as it is wanted."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.daemons import Daemons

A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


def test_every_card_gets_one_and_only_once() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A, B])
    assert daemons.starts(0) == [A, B]
    daemons.want([A, B])
    assert daemons.starts(1) == []
    assert (daemons.running, daemons.next_at) == ((A, B), None)


def test_the_daemon_of_a_card_that_is_gone_ends_and_comes_back_with_it() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A, B])
    daemons.starts(0)
    daemons.want([B])
    assert daemons.ends() == [A]
    daemons.want([B])
    assert daemons.ends() == []
    daemons.ended(A, 1)
    assert daemons.running == (B,)
    daemons.want([A, B])
    assert daemons.starts(1) == [A]


def test_a_card_that_comes_back_before_its_daemon_ended_gets_another_one() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A])
    daemons.starts(0)
    daemons.want([])
    assert daemons.ends() == [A]
    daemons.want([A])
    assert daemons.starts(0) == []
    daemons.ended(A, 1)
    assert daemons.starts(2) == [A]


def test_one_that_dies_is_tried_again_after_longer_and_longer() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A])
    waits, now = [], 0.0
    for _ in range(8):
        assert daemons.starts(now) == [A]
        daemons.ended(A, now)
        assert daemons.next_at is not None
        assert daemons.starts(daemons.next_at - 0.1) == []
        waits.append(daemons.next_at - now)
        now = daemons.next_at
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_that_ran_for_a_while_is_tried_again_soon() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A])
    for _ in range(5):
        daemons.starts(1000)
        daemons.ended(A, 1000)
        daemons.starts(2000)
        daemons.ended(A, 2060)
        assert daemons.next_at == 2061


def test_a_card_that_goes_while_its_daemon_waits_is_forgotten() -> None:
    daemons = Daemons[GpuUuid]()
    daemons.want([A])
    daemons.starts(0)
    daemons.ended(A, 0)
    daemons.want([])
    assert (daemons.ends(), daemons.next_at, daemons.starts(100)) == ([], None, [])


@given(history=st.lists(st.sets(st.sampled_from([A, B])) | st.sampled_from([A, B])))
def test_whatever_happens_each_card_has_one_daemon_in_the_end(
    history: list[set[GpuUuid] | GpuUuid],
) -> None:
    daemons, alive, ending = Daemons[GpuUuid](), set[GpuUuid](), set[GpuUuid]()
    cards, now = set[GpuUuid](), 0.0
    for happens in [*history, {A}, A, B, {A}]:
        now += 100
        if isinstance(happens, set):
            cards = happens
            daemons.want(cards)
        elif happens in alive:
            # It died, or it was told to end and did.
            alive.remove(happens)
            ending.discard(happens)
            daemons.ended(happens, now)
        told = daemons.ends()
        assert ending.isdisjoint(told)
        ending.update(told)
        for uuid in daemons.starts(now + 99):
            assert uuid not in alive
            alive.add(uuid)
        assert alive == {*daemons.running}
        assert cards | ending == alive
    assert A in alive
