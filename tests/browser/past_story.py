"""A short history as an event log: a pod waits for a card, its blocker leaves, and it runs."""

from pathlib import Path

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, PodGone, PodSeen
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LogHeader
from kubeshare_py.scheduling.machine import MachineEvent, configured_machine
from tests.event_log.histories import LogEntry, a_file, records_of
from tests.making import a_cluster, a_share
from tests.making.driver import of

#: 30 November 2026, 03:00 UTC.
BEGAN = 1_796_007_600
#: Seconds after that.
BLOCKER_CAME, TRAIN_CAME, BLOCKER_LEFT, ENDED = 60.0, 120.0, 300.0, 600.0


class _Written:
    def __init__(self) -> None:
        self.configuration = read({})
        self.machine = configured_machine(self.configuration, IN_TREE, "scheduler")
        self.entries: list[LogEntry] = []

    def tell(self, now: float, *events: MachineEvent) -> None:
        """Handle events; what is placed is bound at once."""
        for event in events:
            effects = self.machine.handle(event, now)
            self.entries.append((event, now, effects))
            for bind in of(Bind, effects):
                pod = self.machine.records[bind.uid].pod
                shown = replace(pod, node_name=bind.node, allocation=bind.allocation)
                answer = BindAnswered(bind.uid, bind.allocation.token, Bound())
                self.tell(now, answer, PodSeen(shown))


def a_written_log(folder: Path) -> Path:
    """The log's folder."""
    story, decide = _Written(), BindSlotsFree(64)
    story.tell(0.0, *a_cluster({"n1": 1}), decide)
    blocker, train = a_share("blocker", 1000), a_share("train", 500)
    story.tell(BLOCKER_CAME, PodSeen(blocker), decide)
    story.tell(TRAIN_CAME, PodSeen(train), decide)
    story.tell(BLOCKER_LEFT, PodGone(blocker.uid, stopped=True), decide)
    story.tell(ENDED, decide)
    header = LogHeader(
        name="scheduler",
        version="0.1",
        session="s",
        file=0,
        now=0.0,
        wall=BEGAN,
        configuration=story.configuration,
    )
    file = folder / "20261130T030000Z-s" / "000000.events"
    file.parent.mkdir(parents=True)
    file.write_bytes(a_file(records_of(header, story.entries)))
    return folder
