"""`make test` starts no Go: it would compile Helm, etcd and parts of Kubernetes for a quarter hour.

A `go` that only says so comes first on the PATH, and what was built before is out of sight, as on a
fresh clone. A test that asks for it fails, whatever it makes of the answer. Tests that need such a
program are marked `real_only`: make e2e runs them.
"""

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

#: Where the `go` writes down that it was started.
_STARTED = "KUBESHARE_GO_STARTED"
_SCRIPT = f"""#!/bin/sh
echo "go $*" >>"${_STARTED}"
echo "make test starts no Go" >&2
exit 1
"""
ADVICE = "mark the test real_only, so that make e2e runs it"


class NoGo:
    """A plugin of pytest: while it is registered, tests that start `go` fail."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kubeshare-no-go-")
        folder = Path(self._folder.name)
        self._started = folder / "started"
        (folder / "bin").mkdir()
        program = folder / "bin/go"
        program.write_text(_SCRIPT)
        program.chmod(0o755)
        os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        os.environ[_STARTED] = str(self._started)
        os.environ["KUBESHARE_CONTROLPLANE_CACHE"] = str(folder / "control-plane")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Look after the fixtures."""
        result = yield
        self._expect_none()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Look after the test."""
        result = yield
        self._expect_none()
        return result

    def pytest_unconfigure(self) -> None:
        """Delete the program."""
        self._folder.cleanup()

    def _expect_none(self) -> None:
        if self._started.exists():
            commands = self._started.read_text().splitlines()
            self._started.unlink()
            pytest.fail(f"it started {', '.join(commands)}: {ADVICE}", pytrace=False)
