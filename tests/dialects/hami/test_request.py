"""What pods ask for in HAMi's words."""

from collections.abc import Mapping

import pytest

from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.request import ContainerRef
from tests.dialects.hami.pods import (
    CORES,
    GPU,
    HAMI,
    MEM,
    MIB,
    PERCENT,
    PRIORITY,
    SEED,
    asks,
    claim,
    refusal,
    request,
)

#: Count, MiB, thousandths of memory, thousandths of time, alone.
Expected = tuple[int, int | None, int | None, int, bool]


def seen(amounts: Mapping[str, int], dialect: Hami = HAMI) -> Expected:
    found = claim(amounts, dialect=dialect)
    mib = None if found.memory_bytes is None else found.memory_bytes // MIB
    return found.count, mib, found.memory_milli, found.milli, found.exclusive


@pytest.mark.parametrize(
    ("amounts", "wanted"),
    [
        ({GPU: 2, MEM: 4096}, (2, 4096, None, 0, False)),  # MiB of each card
        ({GPU: 1, MEM: 2000, PERCENT: 50}, (1, 2000, None, 0, False)),  # the MiB count
        ({GPU: 1, PERCENT: 0}, (1, None, 1000, 0, False)),  # 0 % is not said
        ({GPU: 1, MEM: 2000, PERCENT: 0}, (1, 2000, None, 0, False)),
        ({GPU: 1, PERCENT: 50, CORES: 30}, (1, None, 500, 300, False)),
        ({GPU: 1, MEM: 3000, CORES: 30, PRIORITY: 1}, (1, 3000, None, 300, False)),
        ({GPU: 1, MEM: 1000, CORES: 120}, (1, 1000, None, 1000, True)),  # all cores, and no more
        ({GPU: 1, MEM: 1000, CORES: 100}, (1, 1000, None, 1000, True)),  # all cores are exclusive
    ],
)
def test_each_card_gives_memory_and_cores(amounts: Mapping[str, int], wanted: Expected) -> None:
    """Wanted are count, MiB, share of the memory, share of the cores, and whether it is alone."""
    assert seen(amounts) == wanted


@pytest.mark.parametrize("amounts", [{GPU: 1}, {GPU: 1, PERCENT: 100}])
def test_whole_memory_without_cores_is_a_card_for_the_pod_alone(amounts: dict[str, int]) -> None:
    """A count alone means all of the memory, and all cores with it; cores that are 0 stay 0."""
    assert seen(amounts) == (1, None, None, 1000, True)
    assert seen({**amounts, CORES: 0}) == (1, None, 1000, 0, False)


def test_the_ancestor_leaves_the_compute_of_such_a_card_to_all() -> None:
    """It adds no cores and no count, and it does not know the annotations that name uuids."""
    assert seen({GPU: 1}, SEED) == (1, None, 1000, 0, False)
    assert asks({MEM: 3000}, dialect=SEED) is not None
    blank = claim({GPU: 1}, dialect=SEED, annotations={"nvidia.com/use-gpuuuid": "GPU-1"})
    assert blank.uuids == ()


@pytest.mark.parametrize(
    ("settings", "amounts", "wanted"),
    [
        ({"default_memory": 512}, {GPU: 1, CORES: 0}, (1, 512, None, 0, False)),
        ({"memory_factor": 2}, {GPU: 1, MEM: 1024}, (1, 2048, None, 0, False)),  # in units of 2 MiB
        ({"default_cores": 30}, {GPU: 1, MEM: 1000}, (1, 1000, None, 300, False)),
        ({"default_cores": 30}, {GPU: 1, MEM: 1000, CORES: 0}, (1, 1000, None, 0, False)),
        ({"default_gpu_num": 2}, {MEM: 1000}, (2, 1000, None, 0, False)),  # a count is added
        ({"memory": "my.io/mem"}, {GPU: 1, "my.io/mem": 5}, (1, 5, None, 0, False)),
    ],
)
def test_administrators_set_defaults_and_names(
    settings: dict[str, object], amounts: dict[str, int], wanted: Expected
) -> None:
    assert seen(amounts, Hami(**settings)) == wanted


@pytest.mark.parametrize(
    ("amounts", "settings", "problem"),
    [
        ({GPU: 1, MEM: 16 << 30}, {}, '="17179869184": is a number of MiB, at most 268435456'),
        ({GPU: 1, MEM: 1 << 30}, {"memory_factor": 2}, "is a number of 2 MiB, at most 134217728"),
        ({GPU: 1, PERCENT: 101}, {}, 'gpumem-percentage]="101": must be at most 100'),
        ({GPU: 2_000_000}, {}, "at most 1000000 GPUs can be had"),
        ({GPU: 0, MEM: 100}, {}, "asks for a part of cards, and not for how many"),
        ({CORES: 10}, {"default_gpu_num": 0}, "asks for a part of cards, and not for how many"),
        ({CORES: 10}, {"profile": "4paradigm"}, "asks for a part of cards, and not for how many"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said(
    amounts: dict[str, int], settings: dict[str, object], problem: str
) -> None:
    """HAMi books nothing for 16Gi, which are bytes, and its ancestor too little."""
    assert problem in refusal(amounts, dialect=Hami(**settings))


def test_a_resource_as_an_annotation_is_refused() -> None:
    """HAMi ignores it, and the pod gets a whole card."""
    assert refusal({GPU: 1}, annotations={MEM: "3000"}) == (
        "annotation nvidia.com/gpumem is a resource: ask for it in resources.limits of a container"
    )


@pytest.mark.parametrize("amounts", [{}, {GPU: 0}, {PRIORITY: 1}, {MEM: 0, GPU: 0}])
def test_a_pod_without_such_amounts_asks_for_nothing(amounts: dict[str, int]) -> None:
    """Neither a priority alone, nor a policy in an annotation, nor a count of 0 asks for a card."""
    assert asks(amounts, annotations={"hami.io/node-scheduler-policy": "spread"}) is None


def test_every_container_has_its_own_claim() -> None:
    """HAMi's ancestor places no pod with two containers."""
    found = request({}, {GPU: 1, MEM: 100}, {GPU: 2, MEM: 200}, inits=({GPU: 3, MEM: 50},))
    assert [(one.container, one.claim.count) for one in found.claims] == [
        (ContainerRef(True, 0), 3),
        (ContainerRef(False, 1), 1),
        (ContainerRef(False, 2), 2),
    ]
    assert dict(found.notes) == {
        "init-0": "50,0,0",
        "container-0": "",
        "container-1": "100,0,0",
        "container-2": "200,0,0",
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"profile": "k8s"},
        {"count": "a b"},
        {"default_cores": 101},
        {"memory_factor": 0},
        {"default_gpu_num": -1},
        {"split": 3},
    ],
)
def test_settings_that_cannot_be_used_name_themselves(settings: dict[str, object]) -> None:
    [name] = settings
    with pytest.raises(ValueError, match=f"^{name}: "):
        Hami(**settings)


def test_two_resources_must_have_two_names() -> None:
    with pytest.raises(ValueError, match="two resources have the same name"):
        Hami(memory="x.io/a", cores="x.io/a")
