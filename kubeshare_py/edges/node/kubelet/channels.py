"""gRPC over kubelet's Unix sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

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
