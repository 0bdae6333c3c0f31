"""What containers ask for, in all four spellings; amounts of 0 ask for nothing."""

import pytest

from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.domain.request import CardRelation, GpuClaim, GpuRequest, InvalidRequest
from tests.dialects.pods import (
    CORE,
    MEMORY,
    NANO,
    NEW_PERCENT,
    OLD_CORE,
    OLD_MEMORY,
    PERCENT,
    a_pod,
)

MIB, GIB = 1 << 20, 1 << 30


def asked(*containers: dict[str, int], dialect: NanoGpu = NANO) -> GpuRequest:
    found = dialect.read(a_pod(*containers))
    assert isinstance(found, GpuRequest)
    assert (found.dialect, found.relation) == ("nano-gpu", CardRelation.FREE)
    return found


def claim_of(**amounts: int) -> GpuClaim:
    return (
        asked({f"elasticgpu.io/gpu-{name}": amount for name, amount in amounts.items()})
        .claims[0]
        .claim
    )


@pytest.mark.parametrize(
    ("amounts", "claim"),
    [
        # The demo of the first README.
        ({OLD_CORE: 20, OLD_MEMORY: 1}, GpuClaim(milli=200, memory_bytes=GIB)),
        # Memory alone, in MiB, leaves core untouched.
        ({MEMORY: 256}, GpuClaim(milli=0, memory_bytes=256 * MIB)),
        ({CORE: 50, MEMORY: 1000}, GpuClaim(milli=500, memory_bytes=1000 * MIB)),
        # Without memory of its own, memory goes with the share.
        ({CORE: 1}, GpuClaim(milli=10)),
        ({PERCENT: 30}, GpuClaim(milli=300)),
        ({NEW_PERCENT: 99}, GpuClaim(milli=990)),
    ],
)
def test_a_container_asks_for_a_part_of_a_card(amounts: dict[str, int], claim: GpuClaim) -> None:
    (one,) = asked(amounts).claims
    assert (one.claim, one.limit_milli) == (claim, claim.milli)
    assert asked(amounts).needs_port


@pytest.mark.parametrize("core", [OLD_CORE, PERCENT, NEW_PERCENT, CORE])
@pytest.mark.parametrize(("amount", "count"), [(100, 1), (150, 1), (200, 2), (899, 8)])
def test_from_100_units_of_core_on_a_container_gets_whole_cards(
    core: str, amount: int, count: int
) -> None:
    (one,) = asked({core: amount}).claims
    assert one.claim == GpuClaim(count=count, milli=1000, exclusive=True)
    assert not asked({core: amount}).needs_port


def test_memory_beside_whole_cards_changes_nothing() -> None:
    assert claim_of(core=100, memory=256) == claim_of(core=100)
    # Not even an amount that no card has.
    assert claim_of(core=100, memory=10**18) == claim_of(core=100)


def test_g73_containers_that_ask_for_nothing_get_nothing() -> None:
    nothing: dict[str, int] = {CORE: 0, MEMORY: 0}
    assert NANO.read(a_pod(nothing)) is None
    assert NANO.read(a_pod({}, {})) is None
    request = asked({}, {CORE: 50}, nothing, {MEMORY: 1})
    assert [str(one.container) for one in request.claims] == ["container-1", "container-3"]


def test_the_first_generations_memory_has_a_unit_of_the_configuration() -> None:
    for unit, size in (("MiB", MIB), ("GiB", GIB)):
        claims = asked({OLD_MEMORY: 3}, dialect=NanoGpu(memory_unit=unit)).claims
        assert claims[0].claim.memory_bytes == 3 * size
        newest = asked({MEMORY: 3}, dialect=NanoGpu(memory_unit=unit)).claims
        assert newest[0].claim.memory_bytes == 3 * MIB
    with pytest.raises(ValueError, match="memory_unit: must be MiB or GiB, not 'G'"):
        NanoGpu(memory_unit="G")


@pytest.mark.parametrize(
    ("containers", "names"),
    [
        (({OLD_CORE: 1, CORE: 1},), (OLD_CORE, CORE)),
        (({PERCENT: 1}, {NEW_PERCENT: 1}), (PERCENT, NEW_PERCENT)),
        (({MEMORY: 1}, {OLD_MEMORY: 1}), (OLD_MEMORY, MEMORY)),
        (({PERCENT: 1}, {MEMORY: 1, CORE: 1}), (PERCENT, CORE)),
    ],
)
def test_a_pod_that_mixes_two_spellings_is_refused_with_both(
    containers: tuple[dict[str, int], ...], names: tuple[str, str]
) -> None:
    problem = NANO.read(a_pod(*containers))
    assert isinstance(problem, InvalidRequest)
    for name in names:
        assert f"resources[{name}]" in str(problem)
    assert "a pod can only use one" in str(problem)


def test_an_amount_of_0_in_another_spelling_is_none() -> None:
    assert asked({OLD_CORE: 0, CORE: 50}).claims == asked({CORE: 50}).claims


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({MEMORY: 10**10}, 'resources[elasticgpu.io/gpu-memory]="10000000000": must be at most'),
        ({OLD_MEMORY: 300_000}, "units of 1073741824 bytes"),
        ({CORE: 10**12}, 'resources[elasticgpu.io/gpu-core]="1000000000000": asks for 10000000000'),
    ],
)
def test_more_than_any_node_has_is_refused(amounts: dict[str, int], words: str) -> None:
    assert words in str(NANO.read(a_pod(amounts)))


@pytest.mark.parametrize(
    ("resource", "longest"), [(OLD_CORE, 59), (PERCENT, 53), (NEW_PERCENT, 53), (MEMORY, 53)]
)
def test_a_name_that_its_annotation_has_no_room_for_is_refused(resource: str, longest: int) -> None:
    assert isinstance(NANO.read(a_pod({resource: 1}, names=("a" * longest,))), GpuRequest)
    problem = str(NANO.read(a_pod({resource: 1}, names=("a" * (longest + 1),))))
    assert f"has a name of more than {longest} characters" in problem
    # Containers that ask for nothing may have any name.
    assert isinstance(NANO.read(a_pod({resource: 1}, {}, names=("a", "b" * 63))), GpuRequest)


def test_too_many_containers_are_a_problem_of_the_pod() -> None:
    assert len(asked(*[{CORE: 1}] * 32).claims) == 32
    problem = str(NANO.read(a_pod(*[{CORE: 1}] * 33)))
    assert (
        problem == "resources[elasticgpu.io/gpu-core] is asked for by 33 containers; at most 32 may"
    )
