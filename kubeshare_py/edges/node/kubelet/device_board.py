"""The list of a resource's devices, and those who follow it."""

import asyncio
from collections.abc import AsyncIterator

from kubeshare_py.node_agent.device_plugin.devices import DeviceList


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
