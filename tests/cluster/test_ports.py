"""The pool of pod-manager ports of one node."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import FIRST_PORT, POOL_SIZE, PortPool


def take_next(pool: PortPool) -> int:
    port = pool.next_free()
    assert port is not None
    pool.take(port)
    return port


def test_the_first_ports_are_50051_and_up() -> None:
    pool = PortPool()
    assert [take_next(pool) for _ in range(3)] == [50051, 50052, 50053]


def test_asking_takes_nothing() -> None:
    pool = PortPool()
    assert pool.next_free() == pool.next_free() == 50051


def test_a_freed_port_is_used_again_only_after_the_round() -> None:
    pool = PortPool()
    for _ in range(3):
        take_next(pool)
    pool.give_back(50051)
    assert [take_next(pool) for _ in range(POOL_SIZE - 3)] == [*range(50054, 50562)]
    assert take_next(pool) == 50051
    assert pool.next_free() is None


def test_there_are_511_ports() -> None:
    pool = PortPool()
    assert [take_next(pool) for _ in range(511)] == [*range(50051, 50562)]
    assert pool.next_free() is None
    pool.give_back(50300)
    assert pool.next_free() == 50300


def test_ports_outside_the_pool_are_somebody_elses() -> None:
    pool = PortPool()
    for port in (50049, 50050, 50562, 80, 0, -1):
        pool.take(port)
        pool.give_back(port)
    assert pool == PortPool()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 600)), min_size=1, max_size=60))
def test_a_free_port_is_never_one_that_is_held(steps: list[tuple[bool, int]]) -> None:
    pool = PortPool()
    held: list[int] = []
    last = FIRST_PORT - 1
    for taking, which in steps:
        if taking or not held:
            free = sorted({*range(FIRST_PORT, FIRST_PORT + POOL_SIZE)} - {*held})
            port = take_next(pool)
            assert port == next((p for p in free if p > last), free[0])
            held.append(port)
            last = port
        else:
            pool.give_back(held.pop(which % len(held)))


def test_a_port_that_two_pods_hold_is_free_when_both_gave_it_back() -> None:
    pool = PortPool()
    for _ in range(2):
        pool.take(FIRST_PORT)
    pool.give_back(FIRST_PORT)
    pool.cursor = 0
    assert pool.next_free() == FIRST_PORT + 1
    pool.give_back(FIRST_PORT)
    assert pool.next_free() == FIRST_PORT
