"""kubelet's own device manager as a process (device_manager/, in Go), and pods for it."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.controlplane.build import DEVICE_MANAGER, build, kept
from tests.patience import PATIENCE_S

Json = dict[str, Any]
#: Of capacity and allocatable amounts, by resource.
Wanted = Callable[[Mapping[str, int], Mapping[str, int]], bool]

_LOOK_S = 0.05


class DeviceManagerRefused(Exception):
    """The manager's own error."""


def built() -> Path:
    """The program, built if need be. Raises NoGo, CalledProcessError."""
    build([DEVICE_MANAGER])
    return kept(DEVICE_MANAGER)


@dataclass(frozen=True, slots=True)
class Given:
    """What a container gets: variables, and names of CDI devices."""

    variables: Mapping[str, str]
    cdi: tuple[str, ...]


class DeviceManager:
    """The manager of one node, whose folders are below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugins = root / "var/lib/kubelet/device-plugins"
        self.pod_resources = root / "var/lib/kubelet/pod-resources/kubelet.sock"
        for folder in (self.plugins, self.pod_resources.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def start(self, pods: Sequence[Json] = ()) -> None:
        """Start it, with the pods that kubelet knows from the API server."""
        with (self.root / "device_manager.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(built(), "-device-plugins", self.plugins, "-pod-resources", self.pod_resources),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
            )
        await self._read()
        for pod in pods:
            await self.ask(op="keep", pod=pod)

    async def kill(self) -> None:
        """As kill -9."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.communicate()
            self._process = None

    def strike(self) -> None:
        """kill -9, also while an answer is awaited; `kill` has to follow."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()

    async def ask(self, **request: Any) -> Json:
        """The manager's answer. Raises DeviceManagerRefused."""
        async with self._turn:
            found = await self._asked(request)
        if found["error"]:
            raise DeviceManagerRefused(found["error"])
        return found

    async def started(self, pod: Json, container: str) -> "Given":
        """What kubelet gives this container of an admitted pod when it starts."""
        found = await self.ask(op="start", uid=pod["metadata"]["uid"], container=container)
        options = found.get("options") or {"Envs": None, "CDIDevices": None}
        variables = {one["Name"]: one["Value"] for one in options["Envs"] or ()}
        return Given(variables, tuple(one["Name"] for one in options["CDIDevices"] or ()))

    async def capacity(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Capacity and allocatable amounts by resource."""
        found = await self.ask(op="capacity")
        return found.get("capacity", {}), found.get("allocatable", {})

    async def expect_capacity(self, wanted: Wanted) -> None:
        """Wait until capacity and allocatable amounts are as wanted."""
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            found = await self.capacity()
            if wanted(*found):
                return
            assert asyncio.get_running_loop().time() < last_look, f"the capacity stayed {found}"
            await asyncio.sleep(_LOOK_S)

    async def _asked(self, request: Json) -> Json:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await self._read()

    async def _read(self) -> Json:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise AssertionError((self.root / "device_manager.log").read_text()[-2000:])
        found: Json = json.loads(line)
        return found


@asynccontextmanager
async def device_manager() -> AsyncIterator[DeviceManager]:
    """One that runs, in folders whose paths are short enough for sockets."""
    with TemporaryDirectory(prefix="kubelet-") as folder:
        made = DeviceManager(Path(folder))
        await made.start()
        try:
            yield made
        finally:
            await made.kill()


def pod(name: str, containers: Mapping[str, Mapping[str, int]], **about: Any) -> Json:
    """A pod whose containers have these limits.

    `init` are those of init containers, of which `sidecars` keep running.
    """
    init, sidecars = about.pop("init", {}), about.pop("sidecars", ())
    uid = about.pop("uid", f"uid-of-{name}")
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, **about},
        "spec": {
            "initContainers": [
                _container(name, limits) | ({"restartPolicy": "Always"} if name in sidecars else {})
                for name, limits in init.items()
            ],
            "containers": [_container(*one) for one in containers.items()],
        },
    }


def _container(name: str, limits: Mapping[str, int]) -> Json:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "image": "i", "resources": {"limits": amounts, "requests": amounts}}
