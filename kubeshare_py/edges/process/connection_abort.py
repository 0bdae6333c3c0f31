"""How our servers, our clients and the embedded cluster close a connection at once.

One place for all, because asyncio's own `abort` fails on the oldest Python that is supported.
"""

import asyncio
import contextlib


def abort(transport: asyncio.WriteTransport | None) -> None:
    """Close it now, without what is buffered. One that is closed, or None, stays as it is."""
    if transport is None:
        return
    # asyncio's TLS transport drops its protocol when it is closed for the second time. Python
    # 3.11.2 then looks for the protocol's method on None; 3.11.7 does nothing.
    with contextlib.suppress(AttributeError):
        transport.abort()
