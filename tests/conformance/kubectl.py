"""A stock kubectl as a person runs it."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

KUBECTL = shutil.which("kubectl")


class Kubectl:
    """kubectl with a home and a kubeconfig of its own; `code` is the last exit status."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
        self.code = 0

    async def __call__(self, *arguments: str, stdin: Any = None) -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        output, _ = await process.communicate(json.dumps(stdin).encode() if stdin else b"")
        self.code = process.returncode or 0
        return output.decode()

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, stdout=asyncio.subprocess.PIPE, env=self._environment
        )

    async def apply(self, *objects: Any) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return await self("apply", "-f", "-", stdin=listed)
