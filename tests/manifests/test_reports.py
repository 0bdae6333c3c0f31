import datetime
import json
import re

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import (
    NominatedPlace,
    PreemptionPlan,
    Preemptor,
    ReportScheduled,
    Victim,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.manifests.reports import (
    PublishedCondition,
    Regarding,
    ReportedEvent,
    disruption_patch,
    event_body,
    micro_time,
    preempting_note,
    read_published,
    regarding_part,
    regarding_pod,
    scheduled_note,
    shortened,
    waiting_patch,
)
from tests.making import GIB, a_gpu

UID = PodUid("u")
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def pod(*conditions: dict[str, str], uid: str = "u", node: str = "") -> bytes:
    return json.dumps(
        {
            "metadata": {"uid": uid},
            "spec": {"nodeName": node} if node else {},
            "status": {"conditions": list(conditions)},
        }
    ).encode()


def condition(status: str, reason: str, message: str = "full") -> dict[str, str]:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


def test_what_a_pod_says_already_is_read() -> None:
    assert read_published(pod(), UID) == PublishedCondition(status_is_false=False, message=None)
    for reason in WaitingReason:
        assert read_published(pod(condition("False", reason)), UID) == PublishedCondition(
            status_is_false=True, message="full", reason=reason
        )
    assert read_published(pod(condition("False", "SchedulingGated")), UID) == PublishedCondition(
        status_is_false=True, message=None
    )
    assert read_published(pod(condition("Unknown", "x")), UID) == PublishedCondition(
        status_is_false=False, message=None
    )


def test_another_pod_a_bound_one_and_nonsense_need_not_be_told() -> None:
    assert read_published(pod(uid="other"), UID) is None
    assert read_published(pod(node="n1"), UID) is None
    assert read_published(b"<html>", UID) is None


def test_the_time_of_the_transition_is_only_sent_when_the_status_changed() -> None:
    kept = waiting_patch(UID, "full", None)["status"]["conditions"][0]
    changed = waiting_patch(UID, "full", AT)["status"]["conditions"][0]
    assert "lastTransitionTime" not in kept
    assert changed["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_the_reason_says_whether_a_new_node_may_help() -> None:
    assert waiting_patch(UID, "full", None)["status"]["conditions"][0]["reason"] == "Unschedulable"
    for reason in WaitingReason:
        (patched,) = waiting_patch(UID, "full", None, reason)["status"]["conditions"]
        assert patched["reason"] == reason.value
        shown = read_published(pod(condition("False", reason)), UID)
        assert shown is not None
        assert [shown.shows("full", one) for one in WaitingReason] == [
            one is reason for one in WaitingReason
        ]


def test_micro_times_have_six_digits() -> None:
    assert micro_time(AT) == "2026-01-02T03:04:05.000000Z"


def test_long_notes_are_cut_at_a_whole_character() -> None:
    assert shortened("x" * 1024) == "x" * 1024
    assert shortened("x" * 1025) == "x" * 1020 + " ..."
    assert shortened("x" + "é" * 600) == "x" + "é" * 509 + " ..."


def test_event_names_fit_however_long_the_pods_is() -> None:
    assert len(event(regarding_pod(UID, PodKey("ns", "p" * 253))).name) == 253
    short = event(regarding_pod(UID, PodKey("ns", "p")))
    assert short.name == f"p.{int(AT.timestamp()) * 10**9:x}"


def event(about: Regarding, reason: str = "r") -> ReportedEvent:
    return ReportedEvent(regarding=about, reason=reason, note="n", at=AT)


def test_events_of_two_cards_at_one_instant_have_two_names() -> None:
    names = {event(regarding_part(NodeName("n1"), uuid)).name for uuid in (GpuUuid("a"), None)}
    assert len(names) == 2
    assert all(re.fullmatch(r"n1\.[0-9a-f]{8}\.[0-9a-f]+", name) for name in names)


def test_an_event_of_a_node_is_kept_where_kubectl_looks_for_it() -> None:
    about = regarding_part(NodeName("n1"), GpuUuid("GPU-1"))
    body = event_body(event(about, "GPUOvercommitted"), "i", 1, AT)
    assert isinstance(body, dict)
    assert body["metadata"]["namespace"] == "default"
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert (body["type"], body["action"]) == ("Warning", "Charging")
    ended = event_body(event(about, "GPUOvercommitEnded"), "i", 1, AT)
    assert isinstance(ended, dict)
    assert ended["type"] == "Normal"


def test_what_users_wrote_steers_no_terminal_that_shows_it() -> None:
    said, shown = "model \x1b]0;x\x07 \x9b2J\nnext", "model ?]0;x? ?2J?next"
    about = regarding_pod(UID, PodKey("ns", "p"))
    event = ReportedEvent(regarding=about, reason="FailedScheduling", note=said, at=AT)
    body = json.loads(json.dumps(event_body(event, "s", 1, AT)))
    assert body["note"] == shown
    for patch in (waiting_patch(UID, said, AT), disruption_patch(UID, "R", said, AT)):
        assert patch["status"]["conditions"][0]["message"] == shown


def bound(*held: CardCharge, cards: tuple[Gpu, ...] = ()) -> str:
    """What a Scheduled event says behind the node's name."""
    allocation = Allocation(token=DecisionToken("t"), cards=held)
    report = ReportScheduled(UID, PodKey("ns", "p"), NodeName("n1"), allocation, cards)
    return scheduled_note(report).removeprefix("Successfully assigned ns/p to n1")


def held(uuid: str, milli: int = 1000, memory_bytes: int = GIB, model: str = "T4") -> CardCharge:
    return CardCharge(GpuUuid(uuid), milli, memory_bytes, model)


def test_a_pod_without_cards_is_scheduled_in_kube_schedulers_words() -> None:
    key, node = PodKey("ns", "p"), NodeName("n1")
    assert scheduled_note(ReportScheduled(UID, key, node)) == "Successfully assigned ns/p to n1"
    assert bound() == ""


def test_a_scheduled_event_names_the_cards_and_how_much_of_them() -> None:
    cards = tuple(a_gpu(f"GPU-{n}", index=n, model="T4") for n in range(12))
    assert bound(held("GPU-3", 500), cards=cards) == ": 0.5 of GPU 3 (T4)"
    assert bound(held("GPU-3"), cards=cards) == ": GPU 3 (T4)"
    assert bound(held("GPU-3", 0, 3 * GIB), cards=cards) == ": 3 GiB of GPU 3 (T4)"
    assert bound(held("GPU-3", 0, GIB // 2), cards=cards) == ": 512 MiB of GPU 3 (T4)"
    two = (held("GPU-1", 333), held("GPU-2", 333))
    assert bound(*two, cards=cards) == ": 0.333 each of GPUs 1, 2 (T4)"
    mixed = (held("GPU-1"), held("GPU-2"), held("GPU-4", 250))
    assert bound(*mixed, cards=cards) == ": GPUs 1, 2 (T4), 0.25 of GPU 4 (T4)"


def test_many_cards_are_summed_up() -> None:
    cards = tuple(a_gpu(f"GPU-{n}", index=n, model="T4") for n in range(16))
    assert bound(*(held(card.uuid) for card in cards), cards=cards) == ": 16 GPUs (T4)"
    unlike = [held(card.uuid, 100 + card.index) for card in cards[:5]]
    expected = ": 0.1 of GPU 0 (T4), 0.101 of GPU 1 (T4), 0.102 of GPU 2 (T4) and 2 more"
    assert bound(*unlike, cards=cards) == expected


def test_cards_that_an_index_does_not_tell_apart_are_named_by_uuid() -> None:
    instance = a_gpu("MIG-1", index=0, model="A100 1g.5gb", parent=GpuUuid("GPU-0"))
    assert bound(held("MIG-1"), cards=(instance,)) == ": MIG-1 (A100 1g.5gb)"
    assert bound(held("GPU-gone", 500)) == ": 0.5 of GPU-gone (T4)"
    assert bound(held("GPU-gone", 500, model="")) == ": 0.5 of GPU-gone"


def plan(*victims: str, node: str = "n1") -> PreemptionPlan:
    """A plan of a pod ns/p with victims `namespace/name` on this node."""
    keys = [PodKey(*victim.split("/")) for victim in victims]
    return PreemptionPlan(
        preemptor=Preemptor(namespace="ns", name="p"),
        nominations=(NominatedPlace(uid=UID, key=PodKey("ns", "p"), node=NodeName(node)),),
        victims=tuple(Victim(uid=PodUid(key.name), key=key, node=NodeName(node)) for key in keys),
    )


def test_a_preemptor_reads_who_gives_way_and_of_other_namespaces_how_many() -> None:
    assert preempting_note(plan("ns/a")) == "Preempts ns/a on node n1"
    assert preempting_note(plan("ns/a", "ns/b")) == "Preempts ns/a and ns/b on node n1"
    mixed = preempting_note(plan("ns/a", "x/secret"))
    assert mixed == "Preempts ns/a and 1 pod of other namespaces on node n1"
    assert preempting_note(plan("x/a", "y/b")) == "Preempts 2 pods of other namespaces on node n1"
    many = preempting_note(plan(*(f"ns/{n}" for n in range(20))))
    assert many.endswith("ns/7 and 12 more of this namespace on node n1")
    here, there = plan("ns/a"), plan("ns/b", node="n2")
    both = replace(here, victims=here.victims + there.victims)
    assert preempting_note(both) == "Preempts ns/a and ns/b on 2 nodes"
