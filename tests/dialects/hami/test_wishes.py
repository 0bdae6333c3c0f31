"""What annotations of a pod say of its cards and of the order of nodes and cards."""

import pytest

from kubeshare_py.dialects.hami.annotations import HamiSettings
from kubeshare_py.dialects.hami.request import policy_of, wishes_of
from kubeshare_py.domain.request import InvalidRequest, Order, PlacementPolicy
from tests.dialects.hami.pods import GPU, MEM, claim, refusal

USE, NO = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
MODE, BIND = "nvidia.com/vgpu-mode", "nvidia.com/numa-bind"
A100, T4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
INSTANCE = f"{A100}-MIG-2g.10gb"
FULL, EMPTY, HIGH, LOW = Order.FULLEST, Order.EMPTIEST, Order.HIGH_NUMA, Order.LOW_NUMA


def takes(annotations: dict[str, str]) -> set[str]:
    """Which of the models are accepted."""
    found = claim({GPU: 1, MEM: 1}, annotations=annotations)
    return {model for model in (A100, T4, INSTANCE) if found.takes(model)}


@pytest.mark.parametrize(
    ("annotations", "models"),
    [
        ({}, {A100, T4}),
        ({USE: "a100"}, {A100}),
        ({USE: "sxm4-40g, t4"}, {A100, T4}),
        ({USE: "NVIDIA A100,"}, {A100}),
        ({USE: "NVIDIA-NVIDIA A100"}, {A100}),
        ({USE: "NVIDIA-Tesla T4"}, {T4}),
        ({USE: "NVIDIA"}, {A100, T4}),
        ({USE: " "}, {A100, T4}),
        ({USE: ",,"}, {A100, T4}),
        ({NO: "A100"}, {T4}),
        ({USE: "A100,T4", NO: "t4"}, {A100}),
        ({NO: "NVIDIA"}, set()),
        ({MODE: "mig"}, {INSTANCE}),
        ({MODE: "mig", USE: "a100"}, {INSTANCE}),
        ({MODE: "mig", USE: "t4"}, set()),
        ({MODE: "hami-core"}, {A100, T4}),
        ({MODE: "mig,hami-core"}, {A100, T4}),
    ],
)
def test_types_are_parts_of_a_models_name_whatever_the_case(
    annotations: dict[str, str], models: set[str]
) -> None:
    """One of the named types has to match and none of the denied ones; blank ones mean nothing."""
    assert takes(annotations) == models


def test_an_instance_is_for_one_container_alone() -> None:
    """HAMi divides a card into MIG instances, and the mode `mig` asks for one of them."""
    found = claim({GPU: 1, MEM: 8000}, annotations={MODE: "mig"})
    assert (found.exclusive, found.memory_bytes) == (True, 8000 << 20)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({MODE: "mps"}, 'nvidia.com/vgpu-mode="mps": names no mode of a GPU: hami-core or mig'),
        ({USE: "A100 (new;)"}, "must have parts of names of GPUs"),
        ({"nvidia.com/use-gpuuuid": ",".join(f"GPU-{one}" for one in range(200))},
         "number of UUIDs 200 is not within 0…128"),
    ],
)  # fmt: skip
def test_what_no_card_can_satisfy_is_refused(annotations: dict[str, str], problem: str) -> None:
    assert problem in refusal({GPU: 1}, annotations=annotations)


def test_uuids_are_named_exactly_and_denied_ones_win() -> None:
    """Spaces around a uuid mean nothing, and a blank list constrains nothing."""
    use, no = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
    found = claim({GPU: 1}, annotations={use: " GPU-abc , GPU-123 ", no: "GPU-abc"})
    assert (found.uuids, found.denied_uuids) == (("GPU-123", "GPU-abc"), ("GPU-abc",))
    assert claim({GPU: 1}, annotations={use: "  "}).uuids == ()


@pytest.mark.parametrize(
    ("text", "binds"), [("true", True), ("1", True), ("T", True), ("yes", False), ("false", False)]
)
def test_one_numa_node_is_asked_for_as_go_reads_it(text: str, binds: bool) -> None:
    """Go's words for true are 1, t, T, true, TRUE and True; what it cannot read is false."""
    assert claim({GPU: 2, MEM: 1}, annotations={BIND: text}).one_numa_node is binds


@pytest.mark.parametrize(
    ("text", "bind", "cards"),
    [
        ("binpack", False, (FULL, HIGH)),
        ("spread", False, (EMPTY, HIGH)),
        ("mutex", False, (EMPTY, HIGH)),
        ("topology-aware", False, (EMPTY, HIGH)),
        ("something", False, (EMPTY, HIGH)),
        ("numa", False, (HIGH,)),
        ("binpack,numa", False, (FULL, HIGH)),
        ("numa, binpack", False, (HIGH, FULL)),
        ("mutex,topology-aware", False, (EMPTY,)),
        ("binpack,mutex", False, (FULL,)),
        ("binpack", True, (LOW, FULL)),
        ("spread", True, (HIGH, EMPTY)),
        ("binpack,numa", True, (HIGH, FULL)),
    ],
)
def test_the_orders_of_cards_are_those_of_hamis_sorts(
    text: str, bind: bool, cards: tuple[Order, ...]
) -> None:
    """Of equal cards the higher NUMA node comes first; a chain's words sort in their order."""
    found = policy_of({"hami.io/gpu-scheduler-policy": text}, HamiSettings(), numa_bind=bind)
    assert isinstance(found, PlacementPolicy)
    assert found.cards == cards
    assert found.idle is ("mutex" in text)
    assert found.joined is ("topology-aware" in text)


@pytest.mark.parametrize(
    ("text", "node"), [("binpack", FULL), ("spread", EMPTY), ("x", FULL), ("", FULL)]
)
def test_an_unknown_word_for_nodes_is_binpack(text: str, node: Order) -> None:
    """HAMi knows `binpack` and `spread`, and takes every other word for the first of them."""
    found = policy_of({"hami.io/node-scheduler-policy": text}, HamiSettings())
    assert isinstance(found, PlacementPolicy)
    assert found.node is node
    by_default = policy_of({}, HamiSettings(node_policy="spread", card_policy="binpack"))
    assert by_default == PlacementPolicy(node=EMPTY, cards=(FULL, HIGH))


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("slot=1,core=1,memory=3", (1, 1, 3)),
        (" memory=3 , core = 0,slot=2", (2, 0, 3)),
        ("slot=1,core=-1,memory=3", None),
        ("slot=1,slot=2,memory=3", None),
        ("slot=0,core=0,memory=0", None),
        ("slot=1,core=1", None),
        ("slot=1,core=1,memory=3,memory=3", None),
        ("slot=1,core=x,memory=3", None),
        ("slot=1,core=1,disk=3", None),
        ("slot=1,core=1,memory=99999999", None),
        ("", None),
    ],
)
def test_weights_are_given_for_all_three_or_the_pod_waits(
    text: str, weights: tuple[int, int, int] | None
) -> None:
    """slot, core and memory once each, none below 0 and at least one above."""
    found = wishes_of({"hami.io/device-scoring-weights": text}, HamiSettings())
    if weights is None:
        assert isinstance(found, InvalidRequest)
        assert "must be slot=N,core=N,memory=N, each once, not all of them 0" in str(found)
    else:
        assert not isinstance(found, InvalidRequest)
        assert found.policy.weights == weights


@pytest.mark.parametrize("key", [USE, NO])
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (",".join(f"t{number}" for number in range(257)), "number of types"),
        ("nvidia-" * 37, "length of a type"),
        ("nvidia-" * 37_000, "length of a type"),
        ("a," * 130_000 + "b" * 254, "length of a type"),
    ],
)
def test_lists_of_types_are_bounded_before_they_are_read(key: str, text: str, rule: str) -> None:
    """A word that begins with `nvidia-` n times has n spellings."""
    found = wishes_of({key: text}, HamiSettings())
    assert isinstance(found, InvalidRequest)
    assert rule in str(found)
    assert len(str(found)) < 600
    assert not isinstance(wishes_of({key: "a," * 130_000}, HamiSettings()), InvalidRequest)
