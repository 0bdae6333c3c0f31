import pytest

from kubeshare_py.inventory.card_uuid import uuid_problem


@pytest.mark.parametrize(
    "uuid",
    [
        "GPU-5e3d2a1f-8b4c-4d6e-9fa0-123456789abc",
        "MIG-5e3d2a1f-8b4c-4d6e-9fa0-123456789abc",
        "MIG-GPU-5e3d2a1f-8b4c-4d6e-9fa0-123456789abc/7/0",
        *("GPU-1", "GPU-my_node-0"),
    ],
)
def test_names_of_one_card_are_taken(uuid: str) -> None:
    assert uuid_problem(uuid) == ""


@pytest.mark.parametrize(
    "uuid",
    [
        *("", "all", "none", "void", "0", "0:1", "GPU-", "MIG-", "gpu-1", "nvidia.com/gpu=all"),
        *("GPU-1,GPU-2", "GPU-1 ", "GPU-1\n", "GPU-../..", "GPU-1/..", "GPU-1//0", "GPU-/1"),
        *("GPU-1/2/3/4", "GPU-\x1b[2J", "GPU-ä", "$(X)", "GPU-$(X)"),
    ],
)
def test_selectors_lists_and_paths_are_not(uuid: str) -> None:
    assert uuid_problem(uuid)


def test_what_is_said_of_it_stays_short() -> None:
    assert len(uuid_problem("x" * 10_000)) < 150
