import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.containers import CAPABILITIES, PRELOAD, VISIBLE_DEVICES, injection

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
