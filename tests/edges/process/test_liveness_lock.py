"""A lock shows that its holder lives, to who may only read, and to nobody longer than that."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kubeshare_py.edges.process.liveness_lock import alive, shown

HOLDER = """
import sys
from pathlib import Path
from kubeshare_py.edges.process.liveness_lock import shown
with shown(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_who_is_killed_is_shown_no_longer(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(tmp_path / "GPU-a")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    assert alive(tmp_path) == ("GPU-a",)
    process.kill()
    await process.communicate()
    assert (tmp_path / "GPU-a").exists()
    assert alive(tmp_path) == ()


def test_asking_is_in_nobodys_way_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "GPU-a"
    file.touch()
    assert alive(tmp_path) == ()
    with shown(file):
        assert alive(tmp_path) == ("GPU-a",)
        with pytest.raises(OSError, match="temporarily unavailable"), shown(file):
            pass
        file.chmod(0o444)  # all that other programs of the node may do with it is read it
        assert alive(tmp_path) == ("GPU-a",)
    assert alive(tmp_path) == ()


def test_what_is_no_file_is_no_proof_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert alive(tmp_path) == ()


def test_what_may_not_be_looked_at_is_not_known(tmp_path: Path) -> None:
    assert alive(tmp_path / "missing") is None
    (tmp_path / "GPU-a").symlink_to(tmp_path / "elsewhere")
    assert alive(tmp_path) is None
