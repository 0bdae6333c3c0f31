"""The node agent's part for HAMi-core: its folder, and the regions of the node's containers.

What containers get of the library is the device plugins' to say (`hami_limits`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder, RegionFolder
from kubeshare_py.edges.node.hami_core.region_files import region_of, tell
from kubeshare_py.edges.process import decision_log
from kubeshare_py.exporters.hami_core_metrics import HAMI_CORE, hami_core_values
from kubeshare_py.exporters.metric_values import Values
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.hami_core.feedback import Feedback, feedback, without_feedback
from kubeshare_py.node_agent.hami_core.shared_region import SharedRegion
from kubeshare_py.node_agent.tenants import AgentState

#: Seconds between two looks at the folder; HAMi's monitor looks as often.
LOOK_S = 5.0


class HamiPart:
    """Keeps `folder` of `node` in order; `unix_clock` gives Unix time (s)."""

    name = "hami-core"
    metrics = HAMI_CORE

    def __init__(
        self,
        node: NodeName,
        folder: HamiFolder,
        look_s: float = LOOK_S,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self.on_report: Callable[[], None] = lambda: None
        #: The regions that can be read, by their folders, as of the last look.
        self.regions: Mapping[RegionFolder, SharedRegion] = {}
        self.state = AgentState()
        self._node = node
        self._folder = folder
        self._look_s = look_s
        self._unix_clock = unix_clock
        self._works: bool | None = None
        self._trouble = self._said = ""
        self._kept: set[Path] = set()
        self._unreadable: Mapping[RegionFolder, str] = {}

    def take(self, state: AgentState) -> None:
        """Pods or cards have changed."""
        self.state = state

    def report(self) -> PartReport | None:
        """HAMi-core is enforced while its library is there."""
        if self._works is None:
            return None
        return PartReport(enforces=(IsolationBackend.HAMI_CORE,) if self._works else ())

    def values(self) -> Values:
        """Its figures."""
        return hami_core_values(self._node, len(self.regions), len(self._unreadable))

    def problem(self) -> str:
        """Why its folder cannot be used; a node without the library is in order."""
        return self._trouble

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                self.look()
                await asyncio.sleep(self._look_s)
        finally:
            # What waits would wait until another agent looks.
            self.read()
            self._tell(without_feedback(self.regions))

    def look(self) -> None:
        """See that all is there, tidy up, and read the regions."""
        before = self.report()
        try:
            self._works = self._folder.prepare()
            self._trouble = ""
            self._say("" if self._works else "its library is not on this node")
        except OSError as error:
            self._works = False
            self._trouble = f"HAMi-core's folder cannot be used: {error.strerror}"
            self._say(str(error))
        self._tidy()
        self.read()
        if self._folder.settings.feedback:
            self._tell(feedback(self.regions, self._unix_clock()))
        else:
            self._tell(without_feedback(self.regions))
        if self.report() != before:
            self.on_report()

    def read(self) -> None:
        """Read all regions now."""
        found = {one: region_of(one.path) for one in self._folder.regions()}
        self.regions = {one: got for one, got in found.items() if isinstance(got, SharedRegion)}
        unreadable = {one: got for one, got in found.items() if isinstance(got, str)}
        for one, why in unreadable.items():
            if self._unreadable.get(one) != why:
                decision_log.warn("hami-core-region", folder=one.path.name, message=why)
        self._unreadable = unreadable

    def _tell(self, all_told: Mapping[RegionFolder, Feedback]) -> None:
        """Write into regions what the library is to do."""
        for one, told in all_told.items():
            region = self.regions[one]
            if (told.recent_kernel, told.is_limiting) != (region.recent_kernel, region.is_limiting):
                try:
                    tell(one.path, region, told)
                except OSError as error:
                    # Its container has ended, or it made its file one that cannot be written.
                    decision_log.detail("hami-core", folder=one.path.name, message=str(error))

    def unix_now(self) -> float:
        """Unix time (s)."""
        return self._unix_clock()

    def _tidy(self) -> None:
        """Remove folders of pods that are gone."""
        if self.state.tenants is None:
            return
        for path, why in self._folder.tidy(self.state.tenants, self._unix_clock()).items():
            if path not in self._kept:
                decision_log.warn("hami-core", folder=path.name, message=why)
            self._kept.add(path)

    def _say(self, why: str) -> None:
        """Log each new trouble once."""
        if why and why != self._said:
            decision_log.warn("hami-core", message=why)
        self._said = why
