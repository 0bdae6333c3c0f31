"""A container made by hand: there is no container runtime here.

What the image and the pod say is taken from them: entry point, environment, command, arguments,
user. The image's packages are those of this environment, but for our wheel.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.shipped import MANIFESTS, Json

ROOT = MANIFESTS.parents[1]
_SCRIPT = Path(__file__).with_name("as_container.sh")
_DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()


def can_mount() -> bool:
    """Whether this process may make mounts, as root may."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("setpriv") is None or os.geteuid() != 0:
        return False
    tried = subprocess.run([unshare, "--mount", "true"], check=False, capture_output=True)
    return tried.returncode == 0


def unpack(folder: Path) -> Path:
    """Make the image's /app as deploy/Dockerfile does, without the dependencies."""
    python, app = sys.executable, folder / "app"
    for command in (
        [python, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
         "--disable-pip-version-check", "--find-links", str(folder), "--target", str(app),
         "kubeshare-py"],
        [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(app)],
    ):  # fmt: skip
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The one container of a pod with this spec. `folder` is for its root.

    `volumes` are host folders (or `memory`, for an emptyDir) by the path that they are mounted at,
    `environment` is what kubelet and runtime add to what the image says.
    """

    spec: Json
    app: Path
    folder: Path
    volumes: Mapping[str, Path | str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def run(self, *further: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run it with further arguments, killed in the end if it still runs; its log is stderr."""
        process = await self._start(*self._command(), *further)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def output(self, code: str) -> str:
        """What this Python prints in the same place."""
        process = await self._start(_python(), "-c", code)
        printed, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return printed.decode().strip()

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        mounts = {"/app": self.app, **self.volumes}
        return await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--propagation=private", "sh", str(_SCRIPT), str(root)),
            str(self.spec["securityContext"]["runAsUser"]),
            " ".join(_seen()),
            " ".join(f"{folder}:{path}" for path, folder in mounts.items()),
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment(),
        )

    def _command(self) -> list[str]:
        [container] = self.spec["containers"]
        [entry] = re.findall(r"^ENTRYPOINT (\[.*\])$", _DOCKERFILE, re.MULTILINE)
        python, *rest = container.get("command", json.loads(entry))
        assert python == "/usr/bin/python3"
        return [_python(), *rest, *container["args"]]

    def _environment(self) -> dict[str, str]:
        image = dict(re.findall(r"(PYTHON\w+)=(\S+)", _DOCKERFILE))
        image["PYTHONPATH"] += f":{sysconfig.get_path('purelib')}"
        [container] = self.spec["containers"]
        said = {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return {**path, **image, **said, **self.environment}


def _python() -> str:
    """Not the one of a virtual environment: that would bring more packages along."""
    return str(Path(sys.base_prefix) / "bin/python3")


def _seen() -> list[str]:
    """Folders of this machine that stand for those of the image."""
    return ["/usr", sys.base_prefix, sysconfig.get_path("purelib")]
