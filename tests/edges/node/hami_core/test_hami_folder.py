"""HAMi's folder on a node, with what pods may do to their part of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.node.hami_core.hami_folder import (
    AGAIN_S,
    KEPT_S,
    LEAST_ENTRIES,
    MOST_ASIDE,
    TURN_ENTRIES,
    HamiFolder,
    NoLibrary,
    Removal,
)
from kubeshare_py.edges.node.hami_core.hami_part import region_of
from kubeshare_py.node_agent.hami_core import HamiCoreSettings, SharedRegion
from tests.node_agent.regions import newest

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


# --- What containers leave in their folders: of any depth, size, mode and owner -------------------


#: More than Python recurses, than a process may have files open, and than a path may be long.
DEPTH = 1500
A, B = PodUid("a"), PodUid("b")
#: Without capabilities, as in the chart: capset(2), with _LINUX_CAPABILITY_VERSION_3.
_AS_THE_AGENT = """
import ctypes, json, sys
from pathlib import Path
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.hami_core.hami_part import HamiPart
from kubeshare_py.node_agent.hami_core import HamiCoreSettings
libc = ctypes.CDLL(None, use_errno=True)
assert libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0
folder = HamiFolder(Path(sys.argv[1]), HamiCoreSettings())
part = HamiPart(NodeName("n1"), folder)
part.look()
assert part.report().enforces, part.problem()
for one in sys.argv[2:]:
    folder.of_container(PodUid(one), "main", "5f" * 16)
stays = [folder.sweep(now) for now in (0.0, 1.0)][-1]
print(json.dumps({path.name: why for path, why in stays.items()}))
"""


@pytest.fixture
def containers(tmp_path: Path) -> Path:
    folder = tmp_path / "usr/local/vgpu"
    (folder / "containers").mkdir(parents=True)
    (folder / "libvgpu.so").write_bytes(b"\x7fELF")
    return folder / "containers"


def nest(folder: Path, depth: int) -> None:
    """Make folders in each other, each with a file in it."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.slow
def test_a_container_starts_again_however_deep_its_folder_is(
    tmp_path: Path, containers: Path
) -> None:
    folder = folder_below(tmp_path)
    folder.of_container(A, "main", CLAIM)
    nest(containers / "a_main", DEPTH)
    folder.of_container(A, "main", CLAIM)
    assert names(containers / "a_main") == []
    assert len(names(containers)) == 2
    assert folder.sweep(0.0) == {}
    assert names(containers) == ["a_main"]


@pytest.mark.slow
def test_deep_folders_of_pods_that_are_gone_are_removed(tmp_path: Path, containers: Path) -> None:
    folder = folder_below(tmp_path)
    for uid in (A, B):
        folder.of_container(uid, "main", CLAIM)
    nest(containers / "a_main", DEPTH)
    later = (containers / "a_main").stat().st_ctime + KEPT_S + 1
    assert folder.tidy({B}, later) == {}
    assert folder.sweep(later) == {}
    assert names(containers) == ["b_main"]


def test_a_large_folder_takes_turns_and_the_others_do_not_wait_for_it(
    tmp_path: Path, containers: Path
) -> None:
    folder = folder_below(tmp_path)
    (large := containers / ".set-aside.a.main.1").mkdir()
    for number in range(LEAST_ENTRIES + 1):
        (large / str(number)).touch()
    for number in range(TURN_ENTRIES // LEAST_ENTRIES):
        (containers / f".set-aside.b.main.{number}").mkdir()
    assert folder.sweep(0.0) == {}
    assert names(containers) == [large.name]
    assert len(names(large)) == 1
    assert folder.sweep(0.0) == {}
    assert names(containers) == []


def test_a_folder_is_entered_whatever_its_mode_and_no_link_is_followed(tmp_path: Path) -> None:
    secret, top = tmp_path / "secret", tmp_path / "top"
    (secret / "kept").mkdir(parents=True)
    secret.chmod(0o500)
    (top / "closed/inner").mkdir(parents=True)
    for at in (top, top / "closed", top / "closed/inner"):
        (at / "link").symlink_to(secret)
    os.mkfifo(top / "closed/inner/pipe")
    for at in (top / "closed/inner", top / "closed", top):
        at.chmod(0)
    removal = Removal(100)
    assert removal.remove(top)
    assert (names(secret), secret.stat().st_mode & 0o777) == (["kept"], 0o500)
    (tmp_path / "link").symlink_to(secret)
    assert not removal.remove(tmp_path / "link")
    assert (removal.problem, names(secret)) == ("Not a directory", ["kept"])


def test_a_container_that_leaves_many_folders_does_not_start(
    tmp_path: Path, containers: Path
) -> None:
    folder = folder_below(tmp_path)
    for _ in range(MOST_ASIDE + 1):
        folder.of_container(A, "main", CLAIM)
    with pytest.raises(OSError, match="16 folders of its earlier starts are not removed yet"):
        folder.of_container(A, "main", CLAIM)
    folder.of_container(B, "main", CLAIM)
    assert folder.sweep(0.0) == {}
    folder.of_container(A, "main", CLAIM)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are root's to make")
def test_what_another_user_closed_is_set_aside_and_told_and_the_others_go_on(
    tmp_path: Path, containers: Path
) -> None:
    """Also the folder itself: a container may give it to another user."""
    folder = folder_below(tmp_path)
    for uid in ("a", "b", "c"):
        folder.of_container(PodUid(uid), "main", CLAIM)
        (containers / f"{uid}_main/in/side").mkdir(parents=True)
        (containers / f"{uid}_main/in/side/file").touch()
        (containers / f"{uid}_main/file").touch()
    # Of the locks, which one container took from the others, HAMi-core's limits do not depend.
    for own in (containers / "a_main/in", containers / "b_main", tmp_path / "tmp/vgpulock"):
        os.chown(own, 12345, 12345)
        own.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", _AS_THE_AGENT, str(tmp_path), "a", "b", "c"],
        check=True,
        capture_output=True,
        text=True,
    )
    stays = json.loads(done.stdout)
    assert {(name.rpartition(".")[0], why) for name, why in stays.items()} == {
        (".set-aside.a.main", "Permission denied"),
        (".set-aside.b.main", "Permission denied"),
    }
    assert names(containers) == sorted([*stays, "a_main", "b_main", "c_main"])
    [of_a] = [name for name in stays if ".a." in name]
    assert names(containers / of_a) == ["in"]
    # By root of the node, or after a change of its owner, another turn removes it.
    now = AGAIN_S * 2
    assert folder.sweep(now) == {}
    assert names(containers) == ["a_main", "b_main", "c_main"]
