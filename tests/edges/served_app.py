"""Routes of ours on a plain HTTP server, asked as a probe or Prometheus would."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer


@asynccontextmanager
async def asking(
    routes: Iterable[web.RouteDef],
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A client of a server with these routes."""
    app = web.Application()
    app.add_routes(routes)
    async with TestClient(TestServer(app), auto_decompress=False) as client:
        yield client
