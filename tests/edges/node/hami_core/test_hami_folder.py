"""HAMi's folder on a node, with what pods may do to their part of it."""

import os
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.node.hami_core.hami_folder import KEPT_S, HamiFolder, NoLibrary
from kubeshare_py.edges.node.hami_core.region_files import region_of
from kubeshare_py.node_agent.hami_core.container_limits import HamiCoreSettings
from kubeshare_py.node_agent.hami_core.shared_region import SharedRegion
from tests.node_agent.hami_core.regions import newest

U = PodUid("uid-1")
CLAIM = "5f" * 16


@pytest.fixture
def vgpu(tmp_path: Path) -> Path:
    folder = tmp_path / "usr/local/vgpu"
    folder.mkdir(parents=True)
    (folder / "libvgpu.so").write_bytes(b"\x7fELF")
    return folder


def folder_below(root: Path) -> HamiFolder:
    return HamiFolder(root, HamiCoreSettings())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_nothing_is_made_on_a_node_without_the_library(tmp_path: Path) -> None:
    folder = folder_below(tmp_path)
    assert not folder.prepare()
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(NoLibrary, match=r"/usr/local/vgpu of this node has no libvgpu\.so"):
        folder.of_container(U, "main", CLAIM)


def test_a_container_gets_an_empty_folder_of_its_own_at_each_start_c3(
    tmp_path: Path, vgpu: Path
) -> None:
    folder = folder_below(tmp_path)
    files = folder.of_container(U, "main", CLAIM)
    assert files.folder == "/usr/local/vgpu/containers/uid-1_main"
    assert (files.library, files.region) == ("/usr/local/vgpu/libvgpu.so", f"{CLAIM}.cache")
    own = vgpu / "containers/uid-1_main"
    assert mode(own) == mode(tmp_path / "tmp/vgpulock") == 0o777
    assert (vgpu / "ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"
    (own / files.region).write_bytes(b"of before the restart")
    assert folder.of_container(U, "main", CLAIM) == files
    assert [*own.iterdir()] == []


def test_hamis_library_has_its_version_in_its_name(tmp_path: Path, vgpu: Path) -> None:
    (vgpu / "libvgpu.so").unlink()
    for at, version in enumerate(("v2.10.0", "v2.9.0")):
        (vgpu / f"libvgpu.so.{version}").write_bytes(b"\x7fELF")
        os.utime(vgpu / f"libvgpu.so.{version}", (1000 - at, 1000 - at))
    assert folder_below(tmp_path).library() == "libvgpu.so.v2.10.0"


def test_a_licence_is_named_where_there_is_one(tmp_path: Path, vgpu: Path) -> None:
    assert folder_below(tmp_path).of_container(U, "main", CLAIM).licence is None
    (vgpu / "license").write_text("")
    licence = folder_below(tmp_path).of_container(U, "main", CLAIM).licence
    assert licence == ("/usr/local/vgpu/license", "/usr/local/vgpu/vgpuvalidator")


def test_an_administrators_preload_file_stays(tmp_path: Path, vgpu: Path) -> None:
    (vgpu / "ld.so.preload").write_text("/opt/mine.so\n")
    folder_below(tmp_path).prepare()
    assert (vgpu / "ld.so.preload").read_text() == "/opt/mine.so\n"


def test_folders_of_pods_that_are_gone_are_removed_after_a_while(
    tmp_path: Path, vgpu: Path
) -> None:
    folder = folder_below(tmp_path)
    for uid in ("here", "gone"):
        folder.of_container(PodUid(uid), "main", CLAIM)
    (vgpu / "containers/odd").mkdir()
    made = (vgpu / "containers/gone_main").stat().st_mtime
    assert folder.tidy({PodUid("here")}, made + KEPT_S - 1) == {}
    assert (vgpu / "containers/gone_main").is_dir()
    os.utime(vgpu / "containers/gone_main", (1 << 32, 1 << 32))
    assert folder.tidy({PodUid("here")}, made + KEPT_S + 1) == {}
    assert folder.sweep(made) == {}
    assert sorted(one.name for one in (vgpu / "containers").iterdir()) == ["here_main", "odd"]


def test_a_link_out_of_a_containers_folder_is_not_followed(tmp_path: Path, vgpu: Path) -> None:
    folder = folder_below(tmp_path)
    own = vgpu / "containers/uid-1_main"
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "kept").write_bytes(newest())
    folder.of_container(U, "main", CLAIM)
    (own / "a.cache").symlink_to(secret / "kept")
    assert region_of(own) == "Too many levels of symbolic links"
    (own / "a.cache").unlink()
    (own / "b").symlink_to(secret)
    folder.of_container(U, "main", CLAIM)
    assert (secret / "kept").exists()


def test_a_pipe_or_a_huge_file_or_two_files_are_no_region(tmp_path: Path) -> None:
    assert region_of(tmp_path) is None
    os.mkfifo(tmp_path / "a.cache")
    assert region_of(tmp_path) == "it is no plain file"
    (tmp_path / "a.cache").unlink()
    with (tmp_path / "a.cache").open("wb") as file:
        file.truncate(1 << 40)
    assert isinstance(region_of(tmp_path), str)
    (tmp_path / "b.cache").write_bytes(newest())
    assert region_of(tmp_path) == "there are 2 files of regions"


def test_a_region_is_read_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "libvgpu.so").write_bytes(b"")
    (tmp_path / "a.cache").write_bytes(newest())
    found = region_of(tmp_path)
    assert isinstance(found, SharedRegion)
    assert found.processes == 2
    (tmp_path / "a.cache").write_bytes(newest()[:1000])
    assert region_of(tmp_path) == "1000 bytes are not the length of any known version"


def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    assert region_of(tmp_path / "none") == "No such file or directory"
