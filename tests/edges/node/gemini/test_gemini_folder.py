"""Gemini's files as its programs see them: whole, and announced by the event that they wait for."""

import ctypes
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.node_agent.gemini import GeminiFiles
from tests.edges.node.gemini.stand_in import IN_CLOSE_WRITE

X, Y = GpuUuid("GPU-x"), GpuUuid("GPU-y")
ONE = "1\nml/a 0.5 1.0 1073741824\n"


def files(config: str, ports: str = "1\nml/a 50051\n", card: GpuUuid = X) -> GeminiFiles:
    return GeminiFiles({card: config}, {card: ports})


@contextmanager
def close_writes(folder: Path) -> Iterator[list[str]]:
    """The names of files of which Gemini's programs are told; complete once it is left."""
    libc = ctypes.CDLL(None)
    events = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(events, str(folder).encode(), IN_CLOSE_WRITE)
    names: list[str] = []
    try:
        yield names
        data, at = os.read(events, 65536), 0
        while at < len(data):
            length = struct.unpack_from("iIII", data, at)[3]
            names.append(data[at + 16 : at + 16 + length].rstrip(b"\0").decode())
            at += 16 + length
    except BlockingIOError:
        pass
    finally:
        os.close(events)


def test_each_change_is_one_close_write_of_the_file_and_of_no_other(tmp_path: Path) -> None:
    folder = GeminiFolder(tmp_path)
    folder.put(files("0\n"))
    with close_writes(folder.config) as config, close_writes(folder.ports) as ports:
        assert folder.put(files(ONE)) == 1
    assert (config, ports) == ([X], [])
    with close_writes(folder.config) as config:
        assert folder.put(files("0\n")) == 1
    assert config == [X]


def test_what_is_right_already_is_not_touched(tmp_path: Path) -> None:
    folder = GeminiFolder(tmp_path)
    assert folder.put(files(ONE)) == 2
    before = (folder.config / X).stat().st_ino
    with close_writes(folder.config) as config:
        assert GeminiFolder(tmp_path).put(files(ONE)) == 0
    assert config == []
    assert (folder.config / X).stat().st_ino == before


@pytest.mark.slow
def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    folder = GeminiFolder(tmp_path)
    long = "".join(f"ml/pod-{number} 0.001 1.0 1073741824\n" for number in range(2000))
    texts = {f"2000\n{long}", "0\n"}
    folder.put(files("0\n"))
    seen, stops = set[str](), threading.Event()

    def read() -> None:
        while not stops.is_set():
            seen.add((folder.config / X).read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        for text in sorted(texts):
            folder.put(files(text))
    stops.set()
    reader.join()
    assert seen <= texts


def test_files_of_cards_that_are_not_named_any_more_are_emptied(tmp_path: Path) -> None:
    """Also while another card is in use, where KubeShare keeps the line of a pod that left."""
    folder = GeminiFolder(tmp_path)
    folder.put(files(ONE))
    folder.put(files(ONE, card=Y))
    assert (folder.config / X).read_text() == (folder.ports / X).read_text() == "0\n"
    assert (folder.config / Y).read_text() == ONE


def test_a_file_that_was_left_half_made_is_no_obstacle(tmp_path: Path) -> None:
    folder = GeminiFolder(tmp_path)
    folder.put(files("0\n"))
    (tmp_path / "kubeshare/scheduler/.new/config-GPU-x").write_text("left over")
    folder.put(files(ONE))
    assert (folder.config / X).read_text() == ONE


def test_pods_read_all_of_it_and_run_the_library(tmp_path: Path) -> None:
    """The hook library, and schedulerIP.txt with the address at which pods find their managers."""
    folder = GeminiFolder(tmp_path)
    assert not folder.put_hook()
    assert not folder.has_hook
    folder.programs.mkdir(parents=True)
    (folder.programs / "libgemhook.so.1").write_bytes(b"\x7fELF")
    assert folder.put_hook()
    assert folder.has_hook
    assert not folder.put_hook()
    assert folder.put_address("10.0.0.7")
    assert not folder.put_address("10.0.0.7")
    assert (folder.library / "schedulerIP.txt").read_text() == "10.0.0.7\n"
    folder.put(files(ONE))
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (*folder.library.iterdir(), folder.config / X)
    }
    assert modes == {"libgemhook.so.1": 0o755, "schedulerIP.txt": 0o644, X: 0o644}
