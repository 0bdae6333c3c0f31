"""Which modules the compiled wheel has as extensions, and that no other build has any."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.release import build
from deploy.release.compiled_modules import COMPILED, LEFT_OUT, PACKAGE, compiled, module_of
from tests.architecture.sources import ROOT
from tests.each import each


def test_every_place_on_the_list_exists() -> None:
    for name in each([*COMPILED, *LEFT_OUT]):
        assert (ROOT / PACKAGE / name).exists(), name


def test_what_is_left_out_would_be_compiled_otherwise_and_says_why_not() -> None:
    for name, reason in each(LEFT_OUT.items()):
        assert any(name.startswith(f"{room}/") for room in COMPILED), name
        assert reason.endswith("."), name


def test_compiled_are_modules_of_the_listed_rooms_that_are_not_left_out() -> None:
    files = compiled(ROOT)
    for file in each(files):
        assert (ROOT / file).is_file()
        assert file.removeprefix(f"{PACKAGE}/") not in LEFT_OUT
        assert not file.endswith("__init__.py")
    assert module_of(files[0]).startswith(f"{PACKAGE}.cluster.")
    assert f"{PACKAGE}/scheduling/queue/pod_queue.py" in files


HOOKS = f"""
from hatchling.builders.wheel import WheelBuilder
print(*WheelBuilder({str(ROOT)!r}).config.hook_config)
"""


@pytest.mark.parametrize(("settings", "hooks"), [({}, ""), (build.COMPILED, "custom")])
def test_the_hook_is_off_unless_it_is_switched_on(settings: Mapping[str, str], hooks: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOOKS], env=settings, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == hooks


def test_an_editable_install_has_no_extension_even_if_the_hook_is_on(tmp_path: Path) -> None:
    editable = f"from hatchling.build import build_editable as b; print(b({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", editable],
        cwd=ROOT,
        env=build.COMPILED,
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith(".so")] == []
