"""The cluster at a moment of the past, against machines that lived through it."""

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kubeshare_py.dashboard.past import PastUnknown
from kubeshare_py.edges.event_log.past import LogOfPast, RunAgain
from kubeshare_py.scheduling.explain.explanation import cluster_portions, whole_view
from kubeshare_py.scheduling.explain.question import sees_all, sees_none
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.views.view import ClusterView
from tests.event_log.histories import a_file, a_header, records_of
from tests.making.busy_world import FACTORIES, BusyWorld, run

SEED = 3


def seen_now(machine: Machine) -> ClusterView:
    return whole_view(list(cluster_portions(machine, topology=True)))


class Lived:
    """A world, what was to be seen after each moment of it, and its log in a folder."""

    def __init__(self, folder: Path) -> None:
        #: By the time (ms since 1970) of the event.
        self.views: dict[int, ClusterView] = {}
        self.world = run(SEED, self._look)
        self.header = a_header(self.world)
        self.records = records_of(self.header, self.world.log)
        self.folder = folder
        self.file = folder / "20231114T221320Z-s" / "000000.events"
        self.file.parent.mkdir()
        self.written(len(self.records))

    def written(self, records: int) -> None:
        """Let the log have so many records so far."""
        self.file.write_bytes(a_file(self.records[:records]))

    def _look(self, world: BusyWorld) -> None:
        _, now, _ = world.log[-1]
        self.views[1_700_000_000_000 + round(now * 1000)] = seen_now(world.machine)

    def log(self) -> LogOfPast:
        return LogOfPast(self.folder, FACTORIES)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    return Lived(tmp_path_factory.mktemp("lived"))


def moment(log: LogOfPast, at_ms: int) -> RunAgain:
    found = log.moment(at_ms, 600.0)
    assert isinstance(found, RunAgain)
    return found


def test_each_moment_is_as_it_was_in_whatever_order_they_are_asked_for(lived: Lived) -> None:
    log, times = lived.log(), list(lived.views)
    for at_ms in (*times, *random.Random(SEED).sample(times, 8)):
        found = moment(log, at_ms)
        assert found.view(sees_all) == lived.views[at_ms]
        assert (found.at_ms, found.note) == (at_ms, "")


def test_between_two_events_it_is_as_the_first_one_left_it(lived: Lived) -> None:
    log, times = lived.log(), sorted(lived.views)
    gaps = [(one, other) for one, other in pairwise(times) if other - one > 1]
    for one, other in gaps[:5]:
        assert moment(log, other - 1).at_ms == one


def test_a_log_that_grows_is_read_on(lived: Lived) -> None:
    log, last = lived.log(), max(lived.views)
    lived.written(len(lived.records) // 2)
    assert moment(log, last).at_ms < last
    lived.written(len(lived.records))
    assert moment(log, last).view(sees_all) == lived.views[last]


def test_it_says_how_far_it_is_and_goes_on_from_there(lived: Lived) -> None:
    log, last = lived.log(), max(lived.views)
    reached = []
    while isinstance(found := log.moment(last, 0.0), int):
        reached.append(found)
    assert reached == sorted({*reached})
    assert len(reached) > 3
    assert found.view(sees_all) == lived.views[last]


def test_the_newest_marks_come_first_and_those_of_others_are_left_out(lived: Lived) -> None:
    found = moment(lived.log(), max(lived.views))
    times = [one.at_ms for one in found.marks(sees_all)]
    assert times == sorted(times, reverse=True)
    placed = {str(one.pod): one.node for one in reversed(found.marks(sees_all)) if one.node}
    bound = {f"{one.namespace}/{one.name}": one.node for one in found.view(sees_all).pods}
    assert placed.keys() & bound.keys()
    assert all(bound[pod] == placed[pod] for pod in placed.keys() & bound.keys())
    assert found.marks(sees_none) == []


def test_of_several_sessions_the_last_one_counts_that_began_by_then(
    lived: Lived, tmp_path: Path
) -> None:
    later = replace(lived.header, session="t", wall=lived.header.wall + 1000.0)
    for name, records in (("s", lived.records), ("t", records_of(later, lived.world.log[:20]))):
        file = tmp_path / f"20231114T221320Z-{name}" / "000000.events"
        file.parent.mkdir()
        file.write_bytes(a_file(records))
    log = LogOfPast(tmp_path, FACTORIES)
    first, second = log.spans()
    assert second.begin_ms - first.begin_ms == 1_000_000
    # After the end of the first one, and before the second: as the first one ended.
    assert moment(log, second.begin_ms - 1).at_ms == first.end_ms
    assert moment(log, second.end_ms).name == second.name
    with pytest.raises(PastUnknown, match="no event log was written yet"):
        log.moment(first.begin_ms - 1, 1.0)


def test_damage_ends_it_and_is_named(lived: Lived, tmp_path: Path) -> None:
    file = tmp_path / "20231114T221320Z-s" / "000000.events"
    file.parent.mkdir()
    whole = a_file(lived.records, portion=20)
    file.write_bytes(whole[: len(whole) * 2 // 3])
    log = LogOfPast(tmp_path, FACTORIES)
    found = moment(log, max(lived.views))
    assert f"{file}: at byte " in found.note
    assert found.view(sees_all) == lived.views[found.at_ms]


@pytest.mark.parametrize("content", [b"", b"no log"])
def test_a_folder_without_a_log_is_named(tmp_path: Path, content: bytes) -> None:
    if content:
        file = tmp_path / "20231114T221320Z-s" / "000000.events"
        file.parent.mkdir()
        file.write_bytes(content)
    with pytest.raises(PastUnknown):
        LogOfPast(tmp_path, FACTORIES).moment(1_700_000_000_000, 1.0)
