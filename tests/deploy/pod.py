"""One pod of the Deployment, its container made by hand: there is no container runtime here.

What the image, the Deployment and the ConfigMap say is taken from them: entry point, environment,
arguments, user, volumes. The image's packages are those of this environment, but for our wheel.
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
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubeshare_py.edges.api_server import ApiServer
from tests.controlplane.shipped import MANIFESTS, Json

ROOT = MANIFESTS.parents[1]
_SCRIPT = Path(__file__).with_name("as_container.sh")
_DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def can_mount() -> bool:
    """Whether this process may make mounts, as root may."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
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


class ConfigMapVolume:
    """A ConfigMap as kubelets mount it: files are links through one link, which is exchanged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0

    def write(self, data: Mapping[str, str]) -> None:
        """The files are these from now on, all at once."""
        self._versions += 1
        version = self.folder / f"..version-{self._versions}"
        version.mkdir(parents=True)
        for name, text in data.items():
            (version / name).write_text(text)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data") / name)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.replace(self.folder / "..data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What it is made of: the Deployment, /app, its ConfigMap, and the token of its account."""

    deployment: Json
    app: Path
    config: ConfigMapVolume
    server: ApiServer
    token: str
    folder: Path

    @asynccontextmanager
    async def run(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run its container; killed in the end if it still runs. Its log is `stderr`."""
        process = await self._start(*self._command())
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
        places = (self._made("root"), self._user(), " ".join(_seen()), " ".join(self._volumes()))
        return await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--propagation=private", "sh", str(_SCRIPT)),
            *places,
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment(),
        )

    def _command(self) -> list[str]:
        [entry] = re.findall(r"^ENTRYPOINT (\[.*\])$", _DOCKERFILE, re.MULTILINE)
        _, *rest = json.loads(entry)
        return [_python(), *rest, *self._container()["args"]]

    def _environment(self) -> dict[str, str]:
        image = dict(re.findall(r"(PYTHON\w+)=(\S+)", _DOCKERFILE))
        image["PYTHONPATH"] += f":{sysconfig.get_path('purelib')}"
        address = urlsplit(self.server.url)
        return {
            **image,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }

    def _volumes(self) -> list[str]:
        """Host folder and mount path of each volume but /tmp, which the script makes."""
        account = Path(self._made("account"))
        (account / "token").write_text(self.token)
        (account / "ca.crt").write_bytes(self.server.ca_file.read_bytes())
        mounts = {one["name"]: one["mountPath"] for one in self._container()["volumeMounts"]}
        assert mounts.pop("tmp") == "/tmp"
        assert mounts.keys() == {"config"}
        config = f"{self.config.folder}:{mounts['config']}"
        return [f"{self.app}:/app", f"{account}:{_ACCOUNT}", config]

    def _user(self) -> str:
        return str(self._spec()["securityContext"]["runAsUser"])

    def _container(self) -> Json:
        [found] = self._spec()["containers"]
        return dict(found)

    def _spec(self) -> Json:
        return dict(self.deployment["spec"]["template"]["spec"])

    def _made(self, name: str) -> str:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return str(path)


def _python() -> str:
    """Not the one of a virtual environment: that would bring more packages along."""
    return str(Path(sys.base_prefix) / "bin/python3")


def _seen() -> list[str]:
    """Folders of this machine that stand for those of the image."""
    return ["/usr", sys.base_prefix, sysconfig.get_path("purelib")]
