"""The gRPC server of one device plugin, v1beta1, on a Unix socket.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import grpc

from kubeshare_py.edges.node.kubelet.channels import OPTIONS
from kubeshare_py.edges.node.kubelet.device_board import DeviceBoard
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.node_agent.device_plugin.devices import HEALTHY, UNHEALTHY, DeviceList

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
