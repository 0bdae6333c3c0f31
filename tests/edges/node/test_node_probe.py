"""What is seen of a node's folders, and what is not known."""

import os
from pathlib import Path

import pytest

from kubeshare_py.domain.card_reading import NodeFeatures
from kubeshare_py.edges.node.card_child import CDI, GEMINI, HAMI, MPS, NodeProbe
from kubeshare_py.edges.process.liveness import shown
from kubeshare_py.isolation.backends import ALIVE, LIBRARY

#: As NVIDIA's toolkit writes it, cut down to what matters here.
SPECIFICATION = """cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices: [{name: all, containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}]
containerEdits:
  hooks:
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, %s]}
"""
OLD = SPECIFICATION % "update-ldcache"
NEW = SPECIFICATION % "apply-cuda-memory-limits"
OTHERS = "kind: vendor.com/nic\n"


def put(root: Path, file: str, text: str = "") -> Path:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_where_nothing_is_mounted_nothing_is_known(tmp_path: Path) -> None:
    assert NodeProbe(str(tmp_path)).look() == NodeFeatures()


@pytest.mark.parametrize(("file", "is_v2"), [("cgroup.controllers", True), ("memory/x", False)])
def test_the_version_of_cgroups_is_that_of_what_is_mounted(
    tmp_path: Path, file: str, is_v2: bool
) -> None:
    put(tmp_path, f"sys/fs/cgroup/{file}")
    assert NodeProbe(str(tmp_path)).look().cgroup_v2 is is_v2


@pytest.mark.parametrize("folder", CDI)
@pytest.mark.parametrize(
    ("texts", "hook"),
    [
        ([], None),
        ([OTHERS], None),
        ([OLD], False),
        ([NEW], True),
        ([OLD, NEW, OTHERS], True),
        ([OTHERS + "# apply-cuda-memory-limits"], None),
    ],
)
def test_a_specification_of_cards_has_the_hook_or_not(
    tmp_path: Path, folder: str, texts: list[str], hook: bool | None
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for number, text in enumerate(texts):
        put(tmp_path, f"{folder}/{number}.yaml", text)
    assert NodeProbe(str(tmp_path)).look().memory_hook is hook


def test_a_specification_that_changes_is_read_anew(tmp_path: Path) -> None:
    probe = NodeProbe(str(tmp_path))
    file = put(tmp_path, f"{CDI[0]}/nvidia.yaml", OLD)
    assert probe.look().memory_hook is False
    file.write_text(NEW)
    assert probe.look().memory_hook is True
    file.unlink()
    assert probe.look().memory_hook is None


def test_a_pipe_or_a_broken_link_among_specifications_is_nobodys_undoing(tmp_path: Path) -> None:
    file = put(tmp_path, f"{CDI[0]}/nvidia.yaml", NEW)
    os.mkfifo(file.with_name("pipe.yaml"))
    probe = NodeProbe(str(tmp_path))
    assert probe.look().memory_hook is True
    file.with_name("link.yaml").symlink_to("nowhere")
    assert probe.look().memory_hook is None


def test_daemons_are_seen_where_the_launcher_shows_them(tmp_path: Path) -> None:
    assert f"/{MPS}" == ALIVE
    (tmp_path / MPS).mkdir(parents=True)
    probe = NodeProbe(str(tmp_path))
    assert probe.look().mps_daemons == ()
    with shown(tmp_path / MPS / "GPU-a"):
        assert probe.look().mps_daemons == ("GPU-a",)


def test_the_library_is_missing_where_its_folder_is_mounted_and_it_is_not_there(
    tmp_path: Path,
) -> None:
    (tmp_path / GEMINI).mkdir()
    assert NodeProbe(str(tmp_path)).look().gemini_library is False
    put(tmp_path, f"{LIBRARY[1:]}/libgemhook.so.1")
    assert NodeProbe(str(tmp_path)).look().gemini_library is True


@pytest.mark.parametrize("name", ["libvgpu.so", "libvgpu.so.v2.10.0"])
def test_hamis_library_is_there_also_with_a_version_in_its_name(tmp_path: Path, name: str) -> None:
    assert NodeProbe(str(tmp_path)).look().hami_library is None
    put(tmp_path, f"{HAMI}/ld.so.preload")
    assert NodeProbe(str(tmp_path)).look().hami_library is False
    put(tmp_path, f"{HAMI}/{name}")
    assert NodeProbe(str(tmp_path)).look().hami_library is True
