import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.isolation.containers import (
    CAPABILITIES,
    NO_CARD,
    PRELOAD,
    VISIBLE_DEVICES,
    WHOLE_CARD,
    PodInjection,
    container_injections,
    injection,
)

NONE = IsolationBackend.NONE


@pytest.mark.parametrize("reach", CardVisibility)
@pytest.mark.parametrize("backend", IsolationBackend)
def test_every_container_is_told_its_cards_first(
    reach: CardVisibility, backend: IsolationBackend
) -> None:
    first, *others = injection(reach, backend).variables
    assert first.name == VISIBLE_DEVICES
    assert (first.value == "void") == (reach is CardVisibility.VOID)
    names = [one.name for one in (first, *others)]
    assert len({*names, PRELOAD}) == len(names) + 1


@pytest.mark.parametrize("reach", CardVisibility)
@pytest.mark.parametrize("backend", IsolationBackend)
def test_a_container_with_a_card_gets_the_drivers_parts_that_kubeshare_gives_it(
    reach: CardVisibility, backend: IsolationBackend
) -> None:
    found = [one for one in injection(reach, backend).variables if "CAPABILITIES" in one.name]
    assert found == ([] if reach is CardVisibility.VOID else [CAPABILITIES])
    assert (CAPABILITIES.name, CAPABILITIES.value) == (
        "NVIDIA_DRIVER_CAPABILITIES",
        "compute,utility",
    )


@pytest.mark.parametrize("backend", IsolationBackend)
def test_only_pods_with_a_share_get_a_back_end(backend: IsolationBackend) -> None:
    for reach in (CardVisibility.VOID, CardVisibility.WHOLE):
        assert injection(reach, backend) == injection(reach, NONE)


@pytest.mark.parametrize("backend", IsolationBackend)
def test_mounts_are_of_volumes_that_come_along(backend: IsolationBackend) -> None:
    found = injection(CardVisibility.SHARE, backend)
    assert {one.volume for one in found.mounts} == {one.name for one in found.volumes}


def test_paths_that_follow_the_card_cannot_lead_to_the_folder_of_all_cards() -> None:
    # An empty variable would leave a path that begins with a slash, which the kubelet refuses.
    mounts = injection(CardVisibility.SHARE, IsolationBackend.MPS).mounts
    assert len(mounts) == 2
    for mount in mounts:
        assert mount.sub_path_expr.startswith(f"$({VISIBLE_DEVICES})/")


MAIN, INIT = ContainerRef(False, 3), ContainerRef(True, 0)
SHARE, WHOLE = CardVisibility.SHARE, CardVisibility.WHOLE


def paths(found: PodInjection, container: ContainerRef) -> dict[str, str]:
    return {one.name: one.field_path for one in found.of(container).variables if one.field_path}


@pytest.mark.parametrize("backend", IsolationBackend)
def test_where_containers_differ_each_refers_to_annotations_of_its_own(
    backend: IsolationBackend,
) -> None:
    found = container_injections({MAIN: SHARE, INIT: WHOLE}, backend)
    assert paths(found, INIT) == {
        VISIBLE_DEVICES: "metadata.annotations['sharedgpu/init-0.gpu_uuid']"
    }
    common = {one.name: one.field_path for one in injection(SHARE, backend).variables}
    for name, path in paths(found, MAIN).items():
        is_own = "annotations" in path and "port" not in path
        own = common[name].replace("sharedgpu/", "sharedgpu/container-3.")
        assert path == (own if is_own else common[name])


def test_a_container_without_a_card_among_others_gets_void() -> None:
    found = container_injections({MAIN: SHARE}, IsolationBackend.MPS)
    assert found.of(ContainerRef(False, 0)) == NO_CARD
    assert found.shows_cards


@pytest.mark.parametrize("sees", [SHARE, WHOLE])
def test_a_pod_gets_the_volumes_that_any_of_its_containers_needs_once(sees: CardVisibility) -> None:
    found = container_injections({MAIN: SHARE, INIT: sees}, IsolationBackend.MPS)
    assert found.volumes == injection(SHARE, IsolationBackend.MPS).volumes
    assert container_injections({INIT: WHOLE}, IsolationBackend.MPS).volumes == ()


def test_variables_that_are_left_alone_are_left_to_all_containers() -> None:
    names = {"NVIDIA_NVSWITCH"}
    found = container_injections({MAIN: WHOLE}, NONE).without(names)
    assert found.of(MAIN) == WHOLE_CARD.without(names).of(MAIN)
    assert PodInjection(WHOLE_CARD).without(names) == PodInjection(WHOLE_CARD.without(names))


def test_only_pods_with_a_card_need_the_runtime_that_brings_it() -> None:
    assert not PodInjection(NO_CARD).shows_cards
    assert PodInjection(WHOLE_CARD).shows_cards


@pytest.mark.slow
def test_a_container_may_be_told_more_by_its_dialect() -> None:
    one, other = ContainerRef(False, 0), ContainerRef(False, 1)
    sees = {one: CardVisibility.SHARE, other: CardVisibility.SHARE}
    found = container_injections(sees, NONE, {one: (("MINE", "example.com/a"),)})
    *_, last = found.of(one).variables
    assert (last.name, last.field_path) == ("MINE", "metadata.annotations['example.com/a']")
    assert last.is_default  # an entry of the container's own stays
    assert "MINE" not in {each.name for each in found.of(other).variables}
