"""The node agent's part for HAMi-core: its folder, and the regions of the node's containers.

What containers get of the library is the device plugins' to say (`hami_limits`).

What containers wrote is read and removed by a thread, so that none of them holds up the others.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder, RegionFolder
from kubeshare_py.edges.node.hami_core.region_files import region_of, tell
from kubeshare_py.edges.process import decision_log
from kubeshare_py.exporters.hami_core_metrics import HAMI_CORE, hami_core_values
from kubeshare_py.exporters.metric_values import Values
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.hami_core.container_limits import LOCKS
from kubeshare_py.node_agent.hami_core.feedback import Feedback, feedback, without_feedback
from kubeshare_py.node_agent.hami_core.shared_region import SharedRegion
from kubeshare_py.node_agent.tenants import AgentState

#: Seconds between two looks at the folder; HAMi's monitor looks as often.
LOOK_S = 5.0
Regions = Mapping[RegionFolder, SharedRegion]


class _FolderLook(msgspec.Struct, frozen=True, gc=False):
    """What one look at the folder has shown. `trouble` is why it cannot be used, "" if it can.

    `found` are the regions, with why one cannot be read; `stays` is why a folder is not removed.
    """

    works: bool
    trouble: str
    warning: str
    found: Mapping[RegionFolder, SharedRegion | str]
    stays: Mapping[Path, str]


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
        self.regions: Regions = {}
        self.state = AgentState()
        self._node = node
        self._folder = folder
        self._look_s = look_s
        self._unix_clock = unix_clock
        self._works: bool | None = None
        self._trouble = self._said = ""
        self._stays: Mapping[Path, str] = {}
        self._unreadable: Mapping[RegionFolder, str] = {}
        self._has_ended = False
        self._turn = threading.Lock()

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
        return hami_core_values(
            self._node, len(self.regions), len(self._unreadable), len(self._stays)
        )

    def problem(self) -> str:
        """Why its folder cannot be used; a node without the library is in order."""
        return self._trouble

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                known = self.state.tenants
                self._take_look(await asyncio.to_thread(self._look, known))
                await asyncio.sleep(self._look_s)
        finally:
            # A look that is under way would make containers wait; the next one is another agent's.
            with self._turn:
                self._has_ended = True
                regions = self.read(with_use=False)
                self._tell(without_feedback(regions), regions)

    def look(self) -> None:
        """See that all is there, tidy up, and read the regions."""
        self._take_look(self._look(self.state.tenants))

    def read(self, *, with_use: bool = True) -> Regions:
        """The regions that can be read now. Any thread may call it."""
        found = self._read(with_use=with_use)
        return {one: got for one, got in found.items() if isinstance(got, SharedRegion)}

    def _look(self, known: Collection[PodUid] | None) -> _FolderLook | None:
        """Look, and tell the containers what to do; None once the part has ended."""
        with self._turn:
            if self._has_ended:
                return None
            works, trouble, warning = self._prepared()
            stays = {} if known is None else self._folder.tidy(known, self._unix_clock())
            stays |= self._folder.sweep(self._unix_clock())
            found = self._read(with_use=False)
            regions = {one: got for one, got in found.items() if isinstance(got, SharedRegion)}
            has_feedback = self._folder.settings.feedback
            now = self._unix_clock()
            self._tell(
                feedback(regions, now) if has_feedback else without_feedback(regions), regions
            )
            return _FolderLook(works, trouble, warning, found, stays)

    def _prepared(self) -> tuple[bool, str, str]:
        """Whether the library is there, why the folder cannot be used, and what to log of it."""
        try:
            if not self._folder.prepare():
                return False, "", "its library is not on this node"
        except OSError as error:
            return False, f"HAMi-core's folder cannot be used: {error.strerror}", str(error)
        try:
            self._folder.open_locks()
        except OSError as error:
            # Its containers go on: one of them did this, and it is theirs to take turns.
            return True, "", f"{LOCKS} cannot be opened to all containers: {error.strerror}"
        return True, "", ""

    def _read(self, *, with_use: bool) -> dict[RegionFolder, SharedRegion | str]:
        found = {one: region_of(one.path, with_use=with_use) for one in self._folder.regions()}
        return {one: got for one, got in found.items() if got is not None}

    def _take_look(self, look: _FolderLook | None) -> None:
        """Take in a look, and say what is new in it."""
        if look is None:
            return
        before = self.report()
        self._works, self._trouble = look.works, look.trouble
        if look.warning and look.warning != self._said:
            decision_log.warn("hami-core", message=look.warning)
        self._said = look.warning
        for path, why in look.stays.items():
            if self._stays.get(path) != why:
                decision_log.warn("hami-core-not-removed", folder=path.name, message=why)
        self._stays = look.stays
        unreadable = {one: got for one, got in look.found.items() if isinstance(got, str)}
        for one, why in unreadable.items():
            if self._unreadable.get(one) != why:
                decision_log.warn("hami-core-region", folder=one.path.name, message=why)
        self._unreadable = unreadable
        self.regions = {
            one: got for one, got in look.found.items() if isinstance(got, SharedRegion)
        }
        if self.report() != before:
            self.on_report()

    def _tell(self, all_told: Mapping[RegionFolder, Feedback], regions: Regions) -> None:
        """Write into regions what the library is to do."""
        for one, told in all_told.items():
            region = regions[one]
            if (told.recent_kernel, told.is_limiting) != (region.recent_kernel, region.is_limiting):
                try:
                    tell(one.path, region, told)
                except OSError as error:
                    # Its container has ended, or it made its file one that cannot be written.
                    why = error.strerror or "it cannot be written"
                    decision_log.detail("hami-core", folder=one.path.name, message=why)

    def unix_now(self) -> float:
        """Unix time (s)."""
        return self._unix_clock()
