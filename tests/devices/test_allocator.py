"""Which devices of a node satisfy claims."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.devices.allocator import Chosen, Impossible, InUse, allocate, problem_of
from kubeshare_py.devices.device_pools import NodeDevices, PooledDevice
from kubeshare_py.devices.device_verdicts import DeviceVerdicts
from kubeshare_py.domain.device import (
    AllocationMode,
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    MatchAttribute,
    ResourceClaim,
)
from kubeshare_py.domain.values import replace
from tests.making.devices import CLASSES, DRIVER, claim, device, on_node, request, sliced

_SAME_ROOT = MatchAttribute(DRIVER, "root")


def _free(_: PooledDevice) -> str:
    return ""


def _allocated(
    claims: Sequence[ResourceClaim], *devices: Device, in_use: InUse = _free
) -> list[list[str]] | str:
    found = allocate(claims, CLASSES, on_node(sliced(*devices)), DeviceVerdicts(), in_use)
    if isinstance(found, Impossible):
        return found.reason
    return [[one.device.name for _, one in chosen] for chosen in found]


def test_takes_the_first_devices_that_are_free() -> None:
    devices = [device(name) for name in "abc"]
    used: InUse = lambda one: "in use" if one.device.name == "a" else ""  # noqa: E731

    assert _allocated([claim(request())], *devices, in_use=used) == [["b"]]


def test_gives_no_device_twice() -> None:
    claims = [claim(request("r"), request("s")), claim(request(), name="d")]

    assert _allocated(claims, *map(device, "abc")) == [["a", "b"], ["c"]]
    assert _allocated(claims, *map(device, "ab")) == (
        "cannot allocate all claims: resourceclaim ns/d, request r: no devices that go together"
    )


def test_looks_at_the_selectors_of_class_and_request() -> None:
    classes = {"any": DeviceClass(name="any", selectors=(f'device.driver == "{DRIVER}"',))}
    wanted = claim(request("r", 1, f'device.attributes["{DRIVER}"].model == "B"'))
    node = on_node(sliced(device("a", model="A"), device("b", model="B")))

    found = allocate([wanted], classes, node, DeviceVerdicts(), _free)

    assert not isinstance(found, Impossible)
    assert [one.device.name for _, one in found[0]] == ["b"]


def test_goes_back_when_a_constraint_cannot_be_kept() -> None:
    devices = [device("a", root="1"), device("b", root="2"), device("c", root="2")]

    wanted = claim(request("r", 2), constraints=(_SAME_ROOT,))

    assert _allocated([wanted], *devices) == [["b", "c"]]


def test_a_constraint_may_concern_some_requests() -> None:
    devices = [device("a", root="1"), device("b", root="2"), device("c", root="2")]
    constraint = replace(_SAME_ROOT, requests=("s", "t"))

    wanted = claim(request("r"), request("s"), request("t"), constraints=(constraint,))

    assert _allocated([wanted], *devices) == [["a", "b", "c"]]


def test_takes_the_first_alternative_that_fits() -> None:
    alternatives = (request("r/four", 4), request("r/two", 2), request("r/one", 1))

    assert _allocated([claim(alternatives)], *map(device, "abc")) == [["a", "b"]]


def test_all_means_every_matching_device() -> None:
    everything = claim(request(mode="All"))
    used: InUse = lambda one: "in use" if one.device.name == "b" else ""  # noqa: E731

    assert _allocated([everything], *map(device, "ab")) == [["a", "b"]]
    assert _allocated([everything], *map(device, "ab"), in_use=used) == (
        "cannot allocate all claims: resourceclaim ns/c, request r: devices are in use"
    )
    assert _allocated([everything]) == (
        "cannot allocate all claims: resourceclaim ns/c, request r: no device matches"
    )


def test_a_claim_has_at_most_32_devices() -> None:
    devices = [device(f"d{number}") for number in range(40)]

    assert isinstance(_allocated([claim(request("r", 33))], *devices), str)
    assert isinstance(_allocated([claim(request("r", 20), request("s", 13))], *devices), str)
    assert not isinstance(_allocated([claim(request("r", 20), request("s", 12))], *devices), str)


def test_leaves_out_tainted_devices_unless_they_are_tolerated() -> None:
    tainted = replace(device("a"), taints=(DeviceTaint("broken", "", "NoSchedule"),))
    wanted = request()
    tolerant = replace(wanted, tolerations=(DeviceToleration("broken", "Exists"),))

    assert _allocated([claim(wanted)], tainted) == (
        "cannot allocate all claims: resourceclaim ns/c, request r: devices are tainted"
    )
    assert _allocated([claim(tolerant)], tainted) == [["a"]]
    harmless = replace(tainted, taints=(DeviceTaint("broken", "", "None"),))
    assert _allocated([claim(wanted)], harmless) == [["a"]]


def test_names_what_is_not_supported_of_a_device() -> None:
    shared = replace(device("a"), unsupported=("consumesCounters",))

    assert _allocated([claim(request())], shared) == (
        "cannot allocate all claims: resourceclaim ns/c, request r: "
        "devices with consumesCounters are not supported yet"
    )


def test_names_an_expression_that_is_not_supported() -> None:
    wanted = claim(request("r", 1, "device.driver.split('.').size() == 3"))

    assert _allocated([wanted], device("a")) == (
        "resourceclaim ns/c: request r, selector 0: not supported in CEL: function split"
    )


def test_names_a_device_that_lacks_an_attribute() -> None:
    wanted = claim(request("r", 1, f'device.attributes["{DRIVER}"].model == "B"'))

    assert _allocated([wanted], device("a")) == (
        "resourceclaim ns/c: request r, selector 0: device gpu.example.com/n1/a: "
        "the device has no gpu.example.com/model"
    )


def test_judges_a_device_only_when_the_search_comes_to_it() -> None:
    """As kube-scheduler, which asks no selector about devices behind those that it takes."""
    wanted = request("r", 1, f'device.attributes["{DRIVER}"].index < 2')
    first = device("a", index=0)

    assert _allocated([claim(wanted)], first, device("b")) == [["a"]]
    assert "has no" in str(_allocated([claim(wanted)], device("b"), first))


def test_gives_up_a_search_that_takes_too_long() -> None:
    devices = [device(f"d{number}", root=str(number)) for number in range(64)]
    wanted = claim(request("r", 2), request("s", 2), constraints=(_SAME_ROOT,))

    assert _allocated([wanted], *devices) == (
        "cannot allocate all claims: resourceclaim ns/c, request r: no devices that go together"
    )
    free = claim(*(request(f"r{n}", 2) for n in range(8)), request("x", 30))
    assert _allocated([free], *devices[:40]) == (
        "resourceclaim ns/c: the search for devices takes too long"
    )


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (claim(request(device_class="no")), "request r: device class no does not exist"),
        (
            replace(claim(request()), unsupported=("adminAccess",)),
            "resourceclaim ns/c: not supported yet: adminAccess",
        ),
        (
            replace(claim(request()), problem="spec: bad"),
            "resourceclaim ns/c cannot be read: spec: bad",
        ),
        (claim(request()), ""),
    ],
)
def test_names_what_keeps_a_claim_from_every_node(wanted: ResourceClaim, reason: str) -> None:
    assert problem_of(wanted, CLASSES) == reason


# --- against every possible choice ----------------------------------------------------------------

_DEVICES = st.lists(
    st.fixed_dictionaries({"model": st.sampled_from("AB"), "root": st.sampled_from("12")}),
    max_size=5,
)
_MODELS = st.sampled_from([(), (f'device.attributes["{DRIVER}"].model == "A"',)])
_REQUESTS = st.lists(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([*AllocationMode]), _MODELS),
        min_size=1,
        max_size=2,
    ),
    min_size=1,
    max_size=3,
)
_CLAIMS = st.lists(st.tuples(_REQUESTS, st.booleans()), min_size=1, max_size=2)


@given(_DEVICES, _CLAIMS, st.sets(st.integers(0, 4)))
def test_finds_an_allocation_exactly_if_there_is_one(
    described: list[dict[str, str]],
    asked: list[tuple[list[list[tuple[int, AllocationMode, tuple[str, ...]]]], bool]],
    used: set[int],
) -> None:
    devices = [device(f"d{number}", **one) for number, one in enumerate(described)]
    claims = [
        claim(
            *(
                tuple(
                    request(f"r{number}/{at}", count, *selectors, mode=mode)
                    for at, (count, mode, selectors) in enumerate(alternatives)
                )
                for number, alternatives in enumerate(requests)
            ),
            name=f"c{index}",
            constraints=(_SAME_ROOT,) if together else (),
        )
        for index, (requests, together) in enumerate(asked)
    ]
    in_use: InUse = lambda one: "in use" if one.position in used else ""  # noqa: E731
    node = on_node(sliced(*devices))

    found = allocate(claims, CLASSES, node, DeviceVerdicts(), in_use)

    every = list(_all_allocations(claims, node, in_use))
    assert isinstance(found, Impossible) == (not every)
    if not isinstance(found, Impossible):
        assert _named(found) in every
        assert found == allocate(claims, CLASSES, node, DeviceVerdicts(), in_use)


_Named = tuple[tuple[tuple[str, str], ...], ...]


def _named(found: Sequence[Chosen]) -> _Named:
    return tuple(
        tuple((wanted.name, one.device.name) for wanted, one in chosen) for chosen in found
    )


def _all_allocations(
    claims: Sequence[ResourceClaim], node: NodeDevices, in_use: InUse
) -> Iterator[_Named]:
    """Every choice of devices that keeps the rules, tried without order or thrift."""

    def extend(
        left: list[tuple[int, tuple[DeviceRequest, ...]]],
        chosen: tuple[tuple[int, DeviceRequest, PooledDevice], ...],
    ) -> Iterator[tuple[tuple[int, DeviceRequest, PooledDevice], ...]]:
        if not left:
            yield chosen
            return
        (index, alternatives), *rest = left
        for one in alternatives:
            matching = [device for device in node.devices if _matches(one, device)]
            count = len(matching) if one.mode is AllocationMode.ALL else one.count
            if not count:
                continue
            for some in combinations(matching, count):
                yield from extend(rest, (*chosen, *((index, one, device) for device in some)))

    left = [(index, one) for index, wanted in enumerate(claims) for one in wanted.requests]
    for chosen in extend(left, ()):
        ids = [device.key for _, _, device in chosen]
        if len(set(ids)) < len(ids) or any(in_use(device) for _, _, device in chosen):
            continue
        if all(_together(wanted, index, chosen) for index, wanted in enumerate(claims)):
            yield tuple(
                tuple((one.name, device.device.name) for at, one, device in chosen if at == index)
                for index in range(len(claims))
            )


def _matches(wanted: DeviceRequest, candidate: PooledDevice) -> bool:
    model = candidate.device.attribute(DRIVER, "model")
    return not wanted.selectors or (model is not None and model.text == "A")


def _together(
    wanted: ResourceClaim, index: int, chosen: Sequence[tuple[int, DeviceRequest, PooledDevice]]
) -> bool:
    roots = {
        str(device.device.attribute(DRIVER, "root")) for at, _, device in chosen if at == index
    }
    return not wanted.constraints or len(roots) <= 1
