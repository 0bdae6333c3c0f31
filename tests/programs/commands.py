"""Commands of this installation as processes of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.module_forks import Fork, fork
from tests.patience import PATIENCE_S

PIPE = asyncio.subprocess.PIPE


async def start(folder: Path, module: str, *arguments: str) -> Fork:
    """Start `python -m kubeshare_cmd.<module>` in `folder`."""
    return await fork(f"kubeshare_cmd.{module}", *arguments, folder=folder)


async def run(folder: Path, module: str, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, stdout, stderr."""
    process = await start(folder, module, *arguments)
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def running(folder: Path, module: str, *arguments: str) -> AsyncIterator[Fork]:
    """A process, killed at the end if it has not ended by itself."""
    process = await start(folder, module, *arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def expect_said(stream: asyncio.StreamReader | None, text: str) -> str:
    """Read lines until one has this in it."""
    assert stream is not None
    said: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while line := (await stream.readline()).decode():
            if text in line:
                return line
            said.append(line)
    raise AssertionError(f"it ended without saying {text!r}; its last words: {said[-5:]}")
