"""Keeps one device plugin registered with kubelet, through restarts of either.

When kubelet starts it deletes all sockets of the folder, then makes its own. So the folder is
looked at: another kubelet.sock, or a socket of ours that is gone, means that kubelet restarted. A
stream that ended means that kubelet gave the plugin up.
"""

import asyncio
from pathlib import Path
from typing import Any

from kubeshare_py.edges.node.kubelet.channels import KubeletUnreachable, calling
from kubeshare_py.edges.node.kubelet.device_board import DeviceBoard
from kubeshare_py.edges.node.kubelet.plugin_server import PluginAnswers, PluginServer
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Backoff

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
#: Seconds between two looks at the folder, and until a registered plugin must have its stream.
LOOK_S, STREAM_S = 1.0, 10.0
#: kubelet calls the plugin back before it answers, and gives it ten seconds.
_REGISTER_S = 15.0
_METHOD = "/v1beta1.Registration/Register"

#: What tells one file of a name from the next one.
_FileMark = tuple[int, int, int] | None


class RegisteredPlugin:
    """The plugin of one resource in kubelet's `folder` of sockets."""

    def __init__(
        self, folder: Path, resource: str, answers: PluginAnswers, look_s: float = LOOK_S
    ) -> None:
        self.resource = resource
        self.board = DeviceBoard()
        #: Why kubelet does not know the plugin, "" if it does.
        self.trouble = "not registered yet"
        self.registrations = 0
        self._kubelet = folder / KUBELET_SOCKET
        self._socket = folder / f"kubeshare-{resource.replace('/', '-')}.sock"
        self._answers = answers
        self._look_s = look_s

    async def run(self) -> None:
        """Serve and register until cancelled, from when there are devices."""
        await self.board.first()
        backoff = Backoff()
        while True:
            try:
                await self._serve()
            except (OSError, KubeletUnreachable) as error:
                self._failed(str(error))
                await backoff.pause()

    async def _serve(self) -> None:
        """Until kubelet has to be told again. Raises OSError, KubeletUnreachable."""
        async with PluginServer(self._socket, self.board, self._answers) as server:
            kubelet, own = _mark(self._kubelet), _mark(self._socket)
            await self._register(server)
            self.trouble = ""
            self.registrations += 1
            decision_log.inform("plugin-registered", resource=self.resource)
            waited_s = 0.0
            while kubelet == _mark(self._kubelet) and own == _mark(self._socket):
                await asyncio.sleep(self._look_s)
                waited_s = 0.0 if self.board.followers else waited_s + self._look_s
                if waited_s >= STREAM_S:
                    raise KubeletUnreachable("kubelet does not follow the list of devices")
        self.trouble = "kubelet restarted"

    async def _register(self, server: PluginServer) -> None:
        request = wire.RegisterRequest(
            version=VERSION,
            endpoint=self._socket.name,
            resource_name=self.resource,
            options=server.options(),
        )
        async with calling(self._kubelet) as channel:
            register: Any = channel.unary_unary(
                _METHOD, wire.RegisterRequest.SerializeToString, wire.Empty.FromString
            )
            await register(request, timeout=_REGISTER_S)

    def _failed(self, why: str) -> None:
        if why != self.trouble:
            decision_log.warn("plugin-unregistered", resource=self.resource, message=why)
        self.trouble = why


def _mark(path: Path) -> _FileMark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
