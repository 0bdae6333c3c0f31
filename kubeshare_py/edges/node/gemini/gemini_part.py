"""The node agent's part for Gemini: its files follow the allocations of the node's pods.

Nothing is written before the first list of pods: after a restart, and while the API server is away,
the files stay as they are.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.edges.process.liveness import alive
from kubeshare_py.exporters.metric import Values
from kubeshare_py.exporters.node_agent_metrics import GEMINI, GeminiFigures, gemini_values
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.gemini import GeminiFiles, gemini_files
from kubeshare_py.node_agent.tenants import AgentState

#: Seconds between two looks at which daemons run.
_LOOK_S = 5.0


class GeminiPart:
    """Writes Gemini's files of `node` below `folder`.

    `alive_folder` is where the launcher shows its daemons. `host_ip` is the node's address, "" if
    it is not known: then `schedulerIP.txt` is left as it is.
    """

    name = "gemini"
    metrics = GEMINI

    def __init__(
        self,
        node: NodeName,
        folder: GeminiFolder,
        alive_folder: Path,
        host_ip: str = "",
        look_s: float = _LOOK_S,
    ) -> None:
        self.on_report: Callable[[], None] = lambda: None
        self._node = node
        self._folder = folder
        self._alive_folder = alive_folder
        self._host_ip = host_ip
        self._look_s = look_s
        self._backoff = Backoff()
        self._state = AgentState()
        self._files: GeminiFiles | None = None
        self._said: dict[PodKey, str] = {}
        self._has_news = asyncio.Event()
        self._running: tuple[str, ...] | None = None
        self._trouble = ""
        self._writes = self._failures = 0

    def take(self, state: AgentState) -> None:
        """Pods or cards have changed."""
        self._state = state
        self._has_news.set()

    def report(self) -> PartReport | None:
        """Gemini is enforced if its library is there, and a `gem-schd` for each card."""
        if self._files is None:
            return None
        return PartReport(enforces=(IsolationBackend.GEMINI,) if self._works() else ())

    def values(self) -> Values:
        """Its figures."""
        files = self._files or GeminiFiles()
        return gemini_values(
            GeminiFigures(
                node=self._node,
                pods=len(files.served),
                unserved=len(files.unserved),
                schedulers=None if self._running is None else len(self._running),
                writes=self._writes,
                failures=self._failures,
            )
        )

    def problem(self) -> str:
        """Why the files cannot be written."""
        return self._trouble

    async def run(self) -> None:
        """Write whenever pods change, for ever; failures are repeated."""
        while True:
            self._has_news.clear()
            try:
                self._write()
            except OSError as error:
                self._failures += 1
                if str(error) != self._trouble:
                    decision_log.warn("gemini-files", message=str(error))
                self._trouble = f"files cannot be written: {error.strerror}"
                await self._backoff.pause()
                continue
            self._trouble = ""
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._has_news.wait()

    def _write(self) -> None:
        """Make the files what they should be, and look what runs. Raises OSError."""
        before = self.report()
        self._writes += self._folder.put_hook()
        # Pods mount the library's folder: without the library it must not be there, or they would
        # run without limits.
        if self._host_ip and self._folder.has_hook:
            self._writes += self._folder.put_address(self._host_ip)
        if self._state.tenants is not None:
            cards = self._state.cards or ()
            memory_of = {card.uuid: card.memory_bytes for card in cards}
            files = gemini_files(self._state.tenants.values(), memory_of, memory_of)
            self._writes += self._folder.put(files)
            self._say(files)
            self._files = files
        self._running = alive(self._alive_folder)
        if self.report() != before:
            self.on_report()

    def _works(self) -> bool:
        cards = {card.uuid for card in self._state.cards or ()}
        return bool(cards) and cards <= {*(self._running or ())} and self._folder.has_hook

    def _say(self, files: GeminiFiles) -> None:
        """Log each pod without a line once."""
        for pod, why in files.unserved.items():
            if self._said.get(pod) != why:
                decision_log.warn("gemini-unserved", pod=str(pod), message=why)
        self._said = dict(files.unserved)
