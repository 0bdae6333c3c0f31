"""What the API server says of all pods, version by version, written into the checker's books.

It shares nothing with the scheduler's informers: its watch is its own and leads through no proxy.
"""

import asyncio
import json

import aiohttp

from tests.faults.reference_model import ReferenceModel

_AGAIN_S = 0.1


async def follow(
    reference: ReferenceModel, session: aiohttp.ClientSession, url: str, started: asyncio.Event
) -> None:
    """List once, then watch from there, for ever; the server may come and go.

    `started`: from now on nothing is missed, whatever the server expect_new_list.
    """
    version = await _list(reference, session, url)
    while True:
        try:
            version = await _watch(reference, session, url, version, started)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            await asyncio.sleep(_AGAIN_S)
        if not version:
            reference.gaps += 1
            version = await _list(reference, session, url)


async def _list(reference: ReferenceModel, session: aiohttp.ClientSession, url: str) -> str:
    while True:
        try:
            async with session.get(f"{url}/api/v1/pods") as answer:
                if answer.status == 200:
                    found = await answer.json()
                    break
        except (aiohttp.ClientError, ConnectionError):
            pass
        await asyncio.sleep(_AGAIN_S)
    reference.listed(found["items"])
    return str(found["metadata"]["resourceVersion"])


async def _watch(
    reference: ReferenceModel,
    session: aiohttp.ClientSession,
    url: str,
    version: str,
    started: asyncio.Event,
) -> str:
    """Read one watch to its end; answers where to go on, "" when history is lost."""
    query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with session.get(f"{url}/api/v1/pods", params=query, timeout=timeout) as answer:
        if answer.status != 200:
            await asyncio.sleep(_AGAIN_S)
            return version if answer.status != 410 else ""
        started.set()
        rest = b""
        try:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(None, lines):
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        return ""
                    version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        reference.changed(change["type"], change["object"])
        except aiohttp.ClientError:
            pass  # Cut: the next watch goes on from the last line.
    return version
