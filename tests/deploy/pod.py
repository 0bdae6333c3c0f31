"""One pod of the Deployment: its container, with the volumes and the environment that it gets."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubeshare_py.embedded_cluster.serving.server import ApiServer
from tests.controlplane.shipped import Json
from tests.deploy.container import Container

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


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
        async with self._container().run() as process:
            yield process

    async def output(self, code: str) -> str:
        """What this Python prints in the same place."""
        return await self._container().output(code)

    def _container(self) -> Container:
        address = urlsplit(self.server.url)
        return Container(
            spec=self.deployment["spec"]["template"]["spec"],
            app=self.app,
            folder=self.folder,
            volumes=self._volumes(),
            environment={
                "KUBERNETES_SERVICE_HOST": str(address.hostname),
                "KUBERNETES_SERVICE_PORT": str(address.port),
            },
        )

    def _volumes(self) -> dict[str, Path | str]:
        """Host folder by mount path."""
        account = self.folder / "account"
        account.mkdir(exist_ok=True)
        (account / "token").write_text(self.token)
        (account / "ca.crt").write_bytes(self.server.ca_file.read_bytes())
        [container] = self.deployment["spec"]["template"]["spec"]["containers"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == {"config", "tmp"}
        return {
            _ACCOUNT: account,
            mounts["config"]: self.config.folder,
            mounts["tmp"]: "memory",
        }
