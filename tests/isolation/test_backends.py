import pytest

from kubeshare_py.dialects.results import is_result
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import (
    HOLDS,
    UNHELD,
    Enforcement,
    Isolation,
    IsolationBackend,
    IsolationChoice,
    Part,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.isolation.backends import BACKENDS, isolation_results

MIB = 2**20
#: Back ends whose containers are told by annotations; of the others there are none.
TOLD = {IsolationBackend.DRIVER, IsolationBackend.MPS}


def placed(backend: str, *sizes: int, limit: int = 500) -> Allocation:
    cards = tuple(
        CardCharge(GpuUuid(f"GPU-{number}"), 500, size) for number, size in enumerate(sizes)
    )
    isolation = Isolation(IsolationBackend(backend), limit)
    return Allocation(token=DecisionToken("t"), cards=cards, isolation=isolation)


def test_every_back_end_is_in_the_table() -> None:
    assert {*BACKENDS} == {*IsolationBackend}
    assert all(name == one.name for name, one in BACKENDS.items())


def test_only_the_driver_holds_against_a_container_that_does_not_want_it() -> None:
    hard = {name for name, held in HOLDS.items() if Enforcement.DRIVER in held.values()}
    assert hard == {"driver"}


def test_what_no_back_end_can_enforce_is_known_of_each() -> None:
    assert {*UNHELD} == {*IsolationBackend}
    assert UNHELD[IsolationBackend.NONE] == (Part.MEMORY, Part.TIME)
    assert UNHELD[IsolationBackend.DRIVER] == (Part.TIME,)
    for backend in (IsolationBackend.MPS, IsolationBackend.GEMINI, IsolationBackend.HAMI_CORE):
        assert UNHELD[backend] == ()


@pytest.mark.parametrize("backend", IsolationBackend)
def test_what_a_back_end_refers_to_is_the_schedulers_to_write(backend: IsolationBackend) -> None:
    for variable in BACKENDS[backend].variables:
        found = variable.field_path.removeprefix("metadata.annotations['").removesuffix("']")
        assert is_result(found) or "annotations" not in variable.field_path
    keys = isolation_results(placed(backend, MIB))
    assert bool(keys) == (backend in TOLD)
    assert all(map(is_result, keys))


def test_the_driver_is_told_whole_mebibytes_and_never_more_than_is_charged() -> None:
    assert isolation_results(placed("driver", 4 * MIB - 1)) == {"sharedgpu/gpu_mem_mib": "3"}
    assert isolation_results(placed("driver", 9 * MIB, 5 * MIB)) == {"sharedgpu/gpu_mem_mib": "5"}


def test_without_memory_set_aside_the_driver_gets_no_number_and_the_container_does_not_start() -> (
    None
):
    assert isolation_results(placed("driver", 0)) == {}
    assert isolation_results(placed("driver", MIB - 1)) == {}


def test_mps_is_told_threads_by_the_limit_and_memory_of_each_card_as_it_counts_them() -> None:
    assert isolation_results(placed("mps", 3 * MIB, 2 * MIB, limit=505)) == {
        "sharedgpu/mps_thread_percentage": "50",
        "sharedgpu/mps_memory": "0=3M,1=2M",
    }


def placed_by_container(backend: str, *parts: tuple[str, int, int, bool]) -> Allocation:
    """Of container, memory, limit, and whether the card is its own."""
    claims = tuple(
        ClaimCharge(
            container=ContainerRef(name.startswith("init"), int(name[-1])),
            cards=(CardCharge(GpuUuid(f"GPU-{alone}"), 500, size, exclusive=alone),),
            limit_milli=limit,
        )
        for name, size, limit, alone in parts
    )
    return Allocation(
        token=DecisionToken("t"),
        cards=summed(card for claim in claims for card in claim.cards),
        claims=claims,
        isolation=Isolation(IsolationBackend(backend), 800),
    )


PARTS = (
    ("init-1", 3 * MIB, 800, False),
    ("container-0", 2 * MIB, 250, False),
    ("container-2", 9 * MIB, 1000, True),
)


def test_where_containers_differ_each_with_a_share_has_the_limits_of_its_own_claim() -> None:
    assert isolation_results(placed_by_container("driver", *PARTS)) == {
        "sharedgpu/container-0.gpu_mem_mib": "2",
        "sharedgpu/init-1.gpu_mem_mib": "3",
    }
    assert isolation_results(placed_by_container("mps", *PARTS)) == {
        "sharedgpu/container-0.mps_thread_percentage": "25",
        "sharedgpu/container-0.mps_memory": "0=2M",
        "sharedgpu/init-1.mps_thread_percentage": "80",
        "sharedgpu/init-1.mps_memory": "0=3M",
    }
    assert isolation_results(placed_by_container("gemini", *PARTS)) == {}


@pytest.mark.parametrize("backend", IsolationBackend)
def test_what_containers_have_of_their_own_is_the_schedulers_to_write(
    backend: IsolationBackend,
) -> None:
    keys = isolation_results(placed_by_container(backend, *PARTS))
    assert bool(keys) == (backend in TOLD)
    assert all(map(is_result, keys))


@pytest.mark.parametrize(
    ("limit", "percent"), [(1, "1"), (9, "1"), (1000, "100"), (3000, "100"), (0, "100")]
)
def test_mps_percentages_are_from_1_to_100(limit: int, percent: str) -> None:
    found = isolation_results(placed("mps", MIB, limit=limit))
    assert found["sharedgpu/mps_thread_percentage"] == percent


def test_a_placement_without_cards_or_without_isolation_is_told_nothing_more() -> None:
    assert isolation_results(placed("mps")) == {}
    assert isolation_results(Allocation(token=DecisionToken("t"))) == {}


def test_a_pod_chooses_among_what_the_profile_allows_and_gets_the_first_otherwise() -> None:
    choice = IsolationChoice((IsolationBackend.DRIVER, IsolationBackend.MPS))
    assert choice.chosen("mps") is IsolationBackend.MPS
    for wish in ("", "none", "gemini", "MPS"):
        assert choice.chosen(wish) is IsolationBackend.DRIVER


def test_a_profile_without_any_back_end_cannot_be() -> None:
    with pytest.raises(ValueError, match="at least one"):
        IsolationChoice(())
