"""Records say the same as the values that they were made of, in any process."""

import os
import subprocess
import sys
from typing import get_args

import msgspec
import pytest

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain import events
from kubeshare_py.domain.cluster_objects import Budget, Requirement
from kubeshare_py.domain.effects import Bind, ReportScheduled
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import (
    DeviceClaimName,
    DeviceClaims,
    InlineDisk,
    NodeTerm,
    PodClaim,
    PodVolumes,
)
from kubeshare_py.domain.values import field_names, replace
from kubeshare_py.event_log import records
from kubeshare_py.event_log.records import (
    BadRecord,
    LoggedEvent,
    LogHeader,
    RecordReader,
    digest_of,
    event_record,
    header_record,
    record_of,
)
from kubeshare_py.manifests.events import WATCHED
from kubeshare_py.manifests.pods.placement import PackedTerms, packed
from kubeshare_py.scheduling.machine import MachineEvent
from tests.each import each
from tests.event_log.histories import a_header, a_log
from tests.making import a_claim, a_gpu, a_node, a_pod, a_shape
from tests.making.busy_world import run
from tests.scale import seeds
from tests.valid_objects import OBJECTS

MANY_TERMS = packed(
    tuple(NodeTerm(labels=(Requirement("disk", "In", (f"d{n}", "x")),)) for n in range(30))
)
EVENTS: list[events.Event] = [
    events.PodSeen(a_pod("a", a_shape(a_claim(300), terms=MANY_TERMS))),
    events.PodGone(PodUid("u"), events.FinishedMember(uid=PodUid("u"), namespace="n", group="g")),
    events.PodsListed((a_pod(),), 2.5, frozenset({PodUid("x")}), (), frozenset({PodUid("y")})),
    events.NodeSeen(a_node(labels={"zone": "a"})),
    events.InventoryRead(((NodeName("n1"), (a_gpu(),)),), (NodeName("n2"),), more=True),
    events.InventoryFailed("no route"),
    events.BudgetSeen(Budget(key=PodKey("n", "b"), selector=(), disrupted=frozenset({"p", "q"}))),
    events.BindAnswered(PodUid("u"), DecisionToken("t"), events.Bound()),
    events.BindAnswered(
        PodUid("u"), DecisionToken("t"), events.BindRefused(events.Refusal.GATED, "gates")
    ),
    events.BindAnswered(PodUid("u"), DecisionToken("t"), events.BindUnknown("503", 1.5)),
    events.BindSlotsFree(64),
    events.TimePassed(),
]


VOLUMES = PodVolumes(
    namespace="ns",
    claims=(PodClaim("c"), PodClaim("a-v", PodUid("u"), "a")),
    disks=(InlineDisk("rbd", "p/i", True, ("m",)),),
)
DEVICE_CLAIMS = DeviceClaims(
    namespace="ns",
    pod="a",
    uid="u",
    names=(DeviceClaimName("x", "c"), DeviceClaimName("y", "", generated=True)),
)
EVENTS += [
    events.PodSeen(a_pod("a", replace(a_shape(), volumes=VOLUMES))),
    events.PodSeen(a_pod("a", replace(a_shape(), device_claims=DEVICE_CLAIMS))),
]
for watched in WATCHED:
    written = msgspec.json.encode(OBJECTS[watched.kind])
    item = watched.to_domain(msgspec.json.decode(written, type=watched.fields))
    EVENTS += [
        events.ObjectSeen(item),
        events.ObjectGone(watched.kind, item.key),
        events.ObjectsListed(watched.kind, (item,), "late", frozenset({item.key})),
    ]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_read_as_it_was(event: events.Event) -> None:
    found = record_of(event_record(event, 1.25, ()))
    assert found == LoggedEvent(event=event, now=1.25, digest=0, placements=())


def test_long_affinities_stay_packed_because_their_size_counts() -> None:
    found = record_of(event_record(EVENTS[0], 0.0, ()))
    assert isinstance(found, LoggedEvent)
    assert isinstance(found.event, events.PodSeen)
    terms = found.event.pod.shape.terms
    assert isinstance(terms, PackedTerms)
    assert terms == MANY_TERMS


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_every_event_of_a_history_is_read_as_it_was(seed: int) -> None:
    world = run(seed)
    read_again = [record_of(record) for record in a_log(seed)[1:]]
    for one, (event, now, effects) in each(zip(read_again, world.log, strict=True)):
        assert isinstance(one, LoggedEvent)
        assert (one.now, one.digest) == (now, digest_of(effects))
        assert type(one.event) is not type(event) or one.event == event


def test_every_event_has_a_record() -> None:
    written = {kind.__name__ for kind in get_args(MachineEvent)}
    assert written == {*records._KINDS, records._PROFILES}


def test_a_header_is_read_as_it_was_without_hosts_and_files() -> None:
    configuration = read(
        {"gangRepairSeconds": 7, "inventory": {"url": "http://secret:word@prometheus:9090"}}
    )
    header = a_header(run(0), configuration)
    record = header_record(header)
    assert b"secret" not in record
    found = record_of(record)
    assert isinstance(found, LogHeader)
    assert found.configuration.gang_repair_seconds == 7
    assert (found.name, found.wall, found.file) == (header.name, header.wall, 0)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (b"", "cannot be read"),
        (b"\x93\xa3abc\x01\x80", "no event 'abc'"),
        (b"\x81\xa6format\x63", "its format is 99"),
        (event_record(events.BindSlotsFree(2), 0.0, ()).replace(b"slots", b"slits"), "slits"),
        (event_record(events.NodeGone(NodeName("n1")), 0.0, ())[:-3] + b"\x01\xa1n", "read"),
    ],
)
def test_a_record_that_is_none_says_so(record: bytes, said: str) -> None:
    with pytest.raises(BadRecord, match=said):
        record_of(record)


@pytest.mark.slow
def test_a_digest_is_the_same_in_processes_that_hash_differently() -> None:
    once = "from tests.event_log.test_records import digest; print(digest())"
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    child = subprocess.run(
        [sys.executable, "-c", once],
        env={"PYTHONHASHSEED": other, "PYTHONPATH": ".:plugins:cmd"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout == f"{digest()}\n"


def digest() -> int:
    """Of all effects of a history."""
    return digest_of([effect for entry in run(1).log for effect in entry[2]])


def test_effects_that_differ_have_other_digests() -> None:
    world = run(0)
    binds = [
        effect for _, _, effects in world.log for effect in effects if isinstance(effect, Bind)
    ]
    counted = len(field_names(Bind)) - 2
    assert counted == 5, "`decided` and `in_doubt_since` follow from earlier events"
    assert len({digest_of([bind]) for bind in binds}) == len(set(binds))


def test_a_scheduled_report_has_the_digest_of_logs_in_which_it_named_no_cards() -> None:
    bind = next(one for _, _, effects in run(0).log for one in effects if isinstance(one, Bind))
    plain = ReportScheduled(bind.uid, bind.key, bind.node)
    named = replace(plain, allocation=bind.allocation, cards=(a_gpu(),))
    assert digest_of([named]) == digest_of([plain])


def test_pods_of_another_version_are_read_by_the_names_in_the_header() -> None:
    header = msgspec.msgpack.decode(header_record(a_header(run(0))))
    name, now, (pod, shape) = msgspec.msgpack.decode(event_record(EVENTS[0], 0.0, ()))
    names, shape_names = header["fields"]
    reader = RecordReader()
    reader.read(msgspec.msgpack.encode({**header, "fields": [names[::-1], shape_names]}))
    found = reader.read(msgspec.msgpack.encode([name, now, [pod[::-1], shape]]))
    assert isinstance(found, LoggedEvent)
    assert found.event == EVENTS[0]
    fewer = reader_of({**header, "fields": [names[:-1], shape_names]})
    found = fewer.read(msgspec.msgpack.encode([name, now, [pod[:-1], shape]]))
    assert isinstance(found, LoggedEvent)
    assert found.event == EVENTS[0], "a field that it did not have has its default"
    more = reader_of({**header, "fields": [[*names, "of the future"], shape_names]})
    with pytest.raises(BadRecord, match="no field 'of the future'"):
        more.read(msgspec.msgpack.encode([name, now, [[*pod, 1], shape]]))


def reader_of(header: dict[str, object]) -> RecordReader:
    reader = RecordReader()
    reader.read(msgspec.msgpack.encode(header))
    return reader
