"""The gRPC server of one device plugin, v1beta1, on a Unix socket.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc

from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.node_agent.devices import HEALTHY, UNHEALTHY, DeviceList

# gRPC over kubelet's Unix sockets.


#: Lists of devices on a big node are longer than gRPC's 4 MiB; as kubelet's own client.
_MOST_BYTES = 16 << 20
OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", _MOST_BYTES),
    # A new channel connects at once, whatever became of those before it.
    ("grpc.use_local_subchannel_pool", 1),
)


class KubeletUnreachable(Exception):
    """kubelet does not answer, or refuses. The text says which call, and why."""


@asynccontextmanager
async def calling(socket: Path) -> AsyncIterator[grpc.aio.Channel]:
    """A channel for calls; their failures become KubeletUnreachable."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            text = f"{socket.name}: {error.code().name}: {error.details()}"
            raise KubeletUnreachable(text) from error


# The list of a resource's devices, and those who follow it.


class DeviceBoard:
    """Shows the newest list to any number of streams."""

    def __init__(self) -> None:
        self.listed: DeviceList | None = None
        #: How many streams follow it now.
        self.followers = 0
        self._is_old = asyncio.Event()

    def show(self, listed: DeviceList) -> None:
        """Take the newest list; streams hear of it only if it differs."""
        if listed == self.listed:
            return
        self.listed = listed
        self._is_old.set()
        self._is_old = asyncio.Event()

    async def first(self) -> None:
        """Wait for a list that has devices and is not refused."""
        while self.listed is None or self.listed.refusal or not self.listed.count:
            await self._is_old.wait()

    async def watched(self) -> AsyncIterator[DeviceList]:
        """The list now, and each one from then on. A stream that is slow misses some."""
        self.followers += 1
        try:
            while True:
                is_old = self._is_old
                if self.listed is not None:
                    yield self.listed
                await is_old.wait()
        finally:
            self.followers -= 1


_SERVICE = "v1beta1.DevicePlugin"


class DevicesRefused(Exception):
    """A container cannot get its devices. kubelet shows the text in its pod's status."""


class PluginAnswers(Protocol):
    """What one plugin answers, besides its list of devices."""

    #: Whether kubelet asks before each start of a container.
    asks_before_start: bool

    def preferred(self, free: Sequence[str], chosen: Sequence[str], size: int) -> list[str]:
        """`size` of the free devices, with those that are chosen already."""

    def allocate(self, devices: Sequence[str]) -> wire.ContainerAllocateResponse:
        """What a container with these devices gets, whose pod is not known.

        Raises DevicesRefused.
        """

    async def before_start(self, devices: Sequence[str]) -> None:
        """The container with these devices starts. Raises DevicesRefused."""


class PluginServer:
    """Serves while it is entered. Raises OSError if the socket cannot be used."""

    def __init__(self, socket: Path, board: DeviceBoard, answers: PluginAnswers) -> None:
        self.socket = socket
        self._board = board
        self._answers = answers
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> "PluginServer":
        self.socket.unlink(missing_ok=True)
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        try:
            self._server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as error:
            raise OSError(f"{self.socket}: {error}") from error
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
        self.socket.unlink(missing_ok=True)

    def options(self) -> wire.DevicePluginOptions:
        """What kubelet is to call."""
        return wire.DevicePluginOptions(
            pre_start_required=self._answers.asks_before_start,
            get_preferred_allocation_available=True,
        )

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(call: Callable[..., Any], request: Any) -> "grpc.RpcMethodHandler[Any, Any]":
            return grpc.unary_unary_rpc_method_handler(
                call, request.FromString, lambda answer: answer.SerializeToString()
            )

        listing = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch, wire.Empty.FromString, lambda raw: raw
        )
        calls = {
            "GetDevicePluginOptions": unary(self._options, wire.Empty),
            "ListAndWatch": listing,
            "GetPreferredAllocation": unary(self._preferred, wire.PreferredAllocationRequest),
            "Allocate": unary(self._allocate, wire.AllocateRequest),
            "PreStartContainer": unary(self._pre_start, wire.PreStartContainerRequest),
        }
        return grpc.method_handlers_generic_handler(_SERVICE, calls)

    async def _options(self, request: wire.Empty, context: object) -> wire.DevicePluginOptions:
        return self.options()

    async def _list_and_watch(self, request: wire.Empty, context: object) -> AsyncIterator[bytes]:
        async for listed in self._board.watched():
            yield encoded(listed)

    async def _preferred(
        self, request: wire.PreferredAllocationRequest, context: object
    ) -> wire.PreferredAllocationResponse:
        found = [
            self._answers.preferred(
                one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size
            )
            for one in request.container_requests
        ]
        each = [wire.ContainerPreferredAllocationResponse(deviceIDs=one) for one in found]
        return wire.PreferredAllocationResponse(container_responses=each)

    async def _allocate(
        self, request: wire.AllocateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> wire.AllocateResponse:
        try:
            found = [self._answers.allocate(one.devices_ids) for one in request.container_requests]
        except DevicesRefused as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return wire.AllocateResponse(container_responses=found)

    async def _pre_start(
        self, request: wire.PreStartContainerRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> wire.PreStartContainerResponse:
        try:
            await self._answers.before_start(request.devices_ids)
        except DevicesRefused as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return wire.PreStartContainerResponse()


def encoded(listed: DeviceList) -> bytes:
    """The message with all devices of a resource."""
    answer = wire.ListAndWatchResponse()
    for device, healthy in listed.devices():
        answer.devices.add(ID=device, health=HEALTHY if healthy else UNHEALTHY)
    return answer.SerializeToString()
