import datetime
import itertools

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.scheduler.writes.report_requests import (
    ATTEMPTS,
    ConditionQueue,
    DueQueue,
    EventKey,
    EventSeries,
    RepeatedEvent,
)
from kubeshare_py.manifests.reports import Regarding, ReportedEvent, regarding_part, regarding_pod

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def waiting(*counts: tuple[str, int], uid: str = "u") -> ReportWaiting:
    diagnosis = Diagnosis(nodes=9, counts=counts)
    return ReportWaiting(uid=PodUid(uid), key=PodKey("ns", "pod"), diagnosis=diagnosis)


def event(seconds: float = 0, uid: str = "u", reason: str = "FailedScheduling") -> ReportedEvent:
    at = START + datetime.timedelta(seconds=seconds)
    return ReportedEvent(regarding=pod(uid), reason=reason, note="no", at=at)


def pod(uid: str) -> Regarding:
    return regarding_pod(PodUid(uid), PodKey("ns", "pod"))


# DueQueue


def test_values_come_when_they_are_due_and_in_that_order() -> None:
    queue: DueQueue[str, int] = DueQueue()
    queue.put("late", 1, 20)
    queue.put("early", 2, 10)
    assert queue.next_due() == 10
    assert queue.take(9) is None
    assert [queue.take(30), queue.take(30), queue.take(30)] == [("early", 2), ("late", 1), None]


def test_the_newest_value_replaces_and_the_earlier_time_stays() -> None:
    queue: DueQueue[str, int] = DueQueue()
    queue.put("k", 1, 10)
    queue.put("k", 2, 20)
    assert queue.next_due() == 10
    queue.put("k", 3, 5)
    assert len(queue) == 1
    assert queue.take(5) == ("k", 3)
    queue.done("k")
    assert queue.next_due() is None


def test_a_key_that_is_worked_on_is_given_again_only_after_it_is_done() -> None:
    queue: DueQueue[str, int] = DueQueue()
    queue.put("k", 1, 0)
    assert queue.take(0) == ("k", 1)
    queue.put("k", 2, 0)
    assert queue.next_due() is None
    assert queue.take(99) is None
    queue.done("k")
    assert queue.take(99) == ("k", 2)


def test_what_is_discarded_never_comes() -> None:
    queue: DueQueue[str, int] = DueQueue()
    queue.put("a", 1, 0)
    queue.put("b", 2, 0)
    queue.discard("a")
    assert queue.drop_oldest() == "b"
    assert queue.drop_oldest() is None
    assert queue.take(9) is None


# ConditionQueue


def written(conditions: ConditionQueue, now: float) -> list[str]:
    """Write all that is due; gives the texts."""
    texts = []
    while (found := conditions.queue.take(now)) is not None:
        texts.append(found[1].diagnosis.message)
        conditions.reported(found[1], now)
    return texts


def test_only_the_newest_report_of_a_pod_is_written() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 1)), 0)
    conditions.report(waiting(("full", 2)), 0)
    assert written(conditions, 0) == ["0/9 nodes are available: 2 full."]


def test_other_numbers_wait_ten_seconds_and_other_reasons_do_not() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 1)), 0)
    written(conditions, 0)
    conditions.report(waiting(("full", 2)), 1)
    assert conditions.queue.next_due() == 10
    assert written(conditions, 9) == []
    conditions.report(waiting(("tainted", 2)), 9)
    assert written(conditions, 9) == ["0/9 nodes are available: 2 tainted."]


def test_what_the_pod_says_already_is_not_written() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 1)), 0)
    written(conditions, 0)
    conditions.report(waiting(("full", 2)), 1)
    conditions.report(waiting(("full", 1)), 2)
    assert written(conditions, 100) == []


def test_the_same_text_with_another_reason_is_written_at_once() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 9)), 0)
    assert written(conditions, 0) == ["0/9 nodes are available: 9 full."]
    report = waiting(("full", 9))
    failed = replace(report.diagnosis, reason=WaitingReason.SCHEDULER_ERROR)
    conditions.report(replace(report, diagnosis=failed), 1)
    assert written(conditions, 1) == ["0/9 nodes are available: 9 full."]


def test_a_report_that_comes_during_the_write_is_spaced_from_it() -> None:
    conditions = ConditionQueue()
    first, second = waiting(("full", 1)), waiting(("full", 2))
    conditions.report(first, 0)
    assert conditions.queue.take(0) == ("u", first)
    conditions.report(second, 1)
    conditions.reported(first, 2)
    assert conditions.queue.next_due() == 12


def test_a_failed_write_is_repeated_later_unless_something_newer_came() -> None:
    conditions = ConditionQueue()
    first, second = waiting(("full", 1)), waiting(("full", 2))
    conditions.report(first, 0)
    conditions.queue.take(0)
    conditions.failed(first, 0, 5)
    assert conditions.queue.next_due() == 5
    conditions.queue.take(5)
    conditions.report(second, 6)
    conditions.failed(first, 7, 5)
    assert conditions.queue.take(7) == ("u", second)


def test_a_pod_that_is_bound_or_gone_is_forgotten() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 1)), 0)
    written(conditions, 0)
    assert conditions.is_known(PodUid("u"))
    conditions.report(waiting(("full", 2)), 1)
    conditions.withdraw(PodUid("u"))
    assert not conditions.is_known(PodUid("u"))
    assert written(conditions, 100) == []


def test_what_was_told_long_ago_is_read_again() -> None:
    conditions = ConditionQueue()
    conditions.report(waiting(("full", 1)), 0)
    written(conditions, 0)
    conditions.tick(599)
    assert conditions.is_known(PodUid("u"))
    conditions.tick(600)
    assert not conditions.is_known(PodUid("u"))


# EventSeries


def write_all(events: EventSeries, now: float) -> list[tuple[bool, int]]:
    """Write all that is due; gives, for each, whether it existed and the count written."""
    writes = []
    while (found := events.queue.take(now)) is not None:
        key, series = found
        writes.append((series.created, series.count))
        events.written(key, series, series.count, now)
    return writes


def test_the_first_is_created_the_second_a_series_and_later_ones_only_counted() -> None:
    events = EventSeries()
    events.occurred(event(0), 0)
    assert write_all(events, 0) == [(False, 1)]
    events.occurred(event(1), 1)
    assert write_all(events, 1) == [(True, 2)]
    events.occurred(event(2), 2)
    events.occurred(event(3), 3)
    assert write_all(events, 3) == []


def test_occurrences_during_the_first_write_make_it_a_series() -> None:
    events = EventSeries()
    events.occurred(event(0), 0)
    key, series = taken(events, 0)
    events.occurred(event(1), 1)
    events.occurred(event(2), 1)
    events.written(key, series, 1, 1)
    assert write_all(events, 1) == [(True, 3)]


def taken(events: EventSeries, now: float) -> tuple[EventKey, RepeatedEvent]:
    found = events.queue.take(now)
    assert found is not None
    return found


def test_a_series_that_goes_on_is_written_every_half_hour() -> None:
    events = EventSeries()
    for now in itertools.chain(range(0, 3600, 60)):
        events.occurred(event(now), now)
        events.tick(now)
        if writes := write_all(events, now):
            last = now, writes
    assert last == (1860, [(True, 32)])


def test_an_idle_series_gets_its_last_count_and_is_closed() -> None:
    events = EventSeries()
    for now in (0, 1, 2):
        events.occurred(event(now), now)
        write_all(events, now)
    events.tick(361)
    assert write_all(events, 361) == []
    events.tick(362)
    assert write_all(events, 362) == [(True, 3)]
    assert len(events) == 0
    events.occurred(event(400), 400)
    assert write_all(events, 400) == [(False, 1)]


def test_an_idle_single_event_is_forgotten() -> None:
    events = EventSeries()
    events.occurred(event(0), 0)
    write_all(events, 0)
    events.tick(360)
    assert len(events) == 0


def test_a_scheduled_event_is_forgotten_at_once() -> None:
    events = EventSeries()
    events.occurred(event(reason="Scheduled"), 0)
    write_all(events, 0)
    assert len(events) == 0


def test_when_too_many_wait_the_oldest_are_dropped_and_counted() -> None:
    events = EventSeries(most_queued=3)
    for number in range(5):
        events.occurred(event(uid=f"u{number}"), number)
    assert events.dropped == 2
    assert [taken(events, 9)[0][0].uid for _ in range(3)] == ["u2", "u3", "u4"]
    assert events.queue.take(9) is None


def test_a_failed_event_is_tried_a_few_times_and_then_given_up() -> None:
    events = EventSeries()
    events.occurred(event(), 0)
    for attempt in range(ATTEMPTS):
        key, series = taken(events, attempt)
        events.failed(key, series, attempt, 1)
    assert events.queue.take(999) is None
    assert (events.dropped, len(events)) == (1, 0)


def test_a_refused_event_is_given_up_at_once() -> None:
    events = EventSeries()
    events.occurred(event(), 0)
    key, series = taken(events, 0)
    events.refused(key, series)
    assert events.queue.take(999) is None
    assert events.dropped == 1


def test_an_event_that_is_overtaken_is_not_created() -> None:
    events = EventSeries()
    events.occurred(event(uid="a"), 0)
    events.withdraw(pod("a"), "FailedScheduling")
    assert write_all(events, 0) == []
    assert events.dropped == 0


def test_cards_of_one_node_have_events_of_their_own() -> None:
    events = EventSeries()
    for uuid in ("GPU-1", "GPU-2", "GPU-1"):
        about = regarding_part(NodeName("n1"), GpuUuid(uuid))
        told = ReportedEvent(regarding=about, reason="GPUOvercommitted", note="no", at=START)
        events.occurred(told, 0)
    assert write_all(events, 0) == [(False, 2), (False, 1)]


def test_occurrences_during_the_second_write_are_only_counted() -> None:
    events = EventSeries()
    events.occurred(event(0), 0)
    write_all(events, 0)
    events.occurred(event(1), 1)
    key, series = taken(events, 1)
    events.occurred(event(2), 2)
    events.written(key, series, 2, 3)
    assert events.queue.take(9) is None


def test_an_occurrence_while_its_series_is_being_closed_begins_a_new_event() -> None:
    events = EventSeries()
    for now in (0, 1, 2):
        events.occurred(event(now), now)
        write_all(events, now)
    events.tick(400)
    key, closing = taken(events, 400)
    events.occurred(event(401), 401)
    events.written(key, closing, 3, 402)
    assert write_all(events, 402) == [(False, 1)]
    assert len(events) == 1
