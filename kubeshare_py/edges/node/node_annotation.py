"""Writes a node's cards on its Node, for schedulers that read them there."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials, load
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.node_agent.history import given_away
from kubeshare_py.topology.wiring import with_links

#: Seconds until the annotation is written again, in case another client changed it.
REWRITE_S = 300.0


@dataclass(slots=True)
class NodeAnnotation:
    """The annotation on the sampler's node. Nothing is written before the first reading."""

    client: KubeClient
    sampler: CardSampler
    backoff: Backoff = field(default_factory=Backoff)
    rewrite_s: float = REWRITE_S
    _has_reading: asyncio.Event = field(default_factory=asyncio.Event)
    _written: str = ""
    _written_at: float = 0.0

    def on_reading(self) -> None:
        """A reading has been taken in."""
        self._has_reading.set()

    async def run(self) -> None:
        """Write whenever the cards change, for ever; failures are repeated."""
        while True:
            self._has_reading.clear()
            try:
                await self._write()
            except KubeFailure as error:
                self.client.contact.failed("annotation", error, self._path)
                await self.backoff.pause()
                continue
            # A hanging driver causes no reading, and its cards do not count as healthy any more.
            with suppress(TimeoutError):
                async with asyncio.timeout(self.sampler.interval_s):
                    await self._has_reading.wait()

    async def _write(self) -> None:
        if self.sampler.age_s is None:
            return
        now = asyncio.get_running_loop().time()
        text = write_cards(with_links(given_away(self.sampler.cards()), self.sampler.links()))
        if text == self._written and now < self._written_at + self.rewrite_s:
            return
        body = {"metadata": {"annotations": {ANNOTATION: text}}}
        await self.client.merge_patch(self._path, body)
        self._written, self._written_at = text, now

    @property
    def _path(self) -> str:
        return node_path(self.sampler.node)


def credentials() -> Credentials:
    """The credentials of the pod's service account, or of a kubeconfig. Raises KubeConfigError."""
    return load(None)


async def annotate(sampler: CardSampler, writer: Credentials) -> None:
    """Write this sampler's cards, for ever."""
    async with KubeClient(writer) as client:
        annotation = NodeAnnotation(client, sampler)
        sampler.on_reading = annotation.on_reading
        await annotation.run()
