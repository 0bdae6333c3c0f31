"""Writes the node agent's annotation on its own Node: only when it changes, until it is there."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.node.node_annotation import REWRITE_S
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.node_agent.agent_report import ANNOTATION, PartReport, written


class AgentAnnotation:
    """The annotation with what `reports` gives, from when that is not None.

    It is written again after `rewrite_s`, in case another client changed it.
    """

    def __init__(
        self,
        client: KubeClient,
        node: NodeName,
        reports: Callable[[], Iterable[PartReport] | None],
        rewrite_s: float = REWRITE_S,
    ) -> None:
        self._client = client
        self._path = node_path(node)
        self._reports = reports
        self._rewrite_s = rewrite_s
        self._has_news = asyncio.Event()
        self._backoff = Backoff()
        self._written = ""
        self._written_at = 0.0

    def on_report(self) -> None:
        """A report has changed."""
        self._has_news.set()

    async def run(self) -> None:
        """Write for ever; failures are repeated."""
        while True:
            self._has_news.clear()
            try:
                await self._write()
            except KubeFailure as error:
                self._client.contact.failed("annotation", error, self._path)
                await self._backoff.pause()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rewrite_s):
                    await self._has_news.wait()

    async def _write(self) -> None:
        reports = self._reports()
        if reports is None:
            return
        text = written(reports)
        now = asyncio.get_running_loop().time()
        if text == self._written and now < self._written_at + self._rewrite_s:
            return
        body = {"metadata": {"annotations": {ANNOTATION: text}}}
        await self._client.merge_patch(self._path, body)
        self._written, self._written_at = text, now
