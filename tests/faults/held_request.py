"""One request that the proxy keeps back until a test lets it go."""

import asyncio
import re

from aiohttp import web


class Hold:
    """A request that is kept back: `arrived` when it is there, sent on when `release` is set.

    `answered` is the status of what the server then said.
    """

    def __init__(self, method: str, where: str) -> None:
        self._method = method
        self._where = re.compile(where)
        self.arrived = asyncio.Event()
        self.release = asyncio.Event()
        self.answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def is_for(self, request: web.Request) -> bool:
        """Whether it is this one, and no other came before it."""
        found = request.method == self._method and self._where.search(request.path)
        return bool(found) and not self.arrived.is_set()
