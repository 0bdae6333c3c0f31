import datetime
import json

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.manifests.reports import (
    PodEvent,
    Told,
    micro_time,
    read_told,
    shortened,
    waiting_patch,
)

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
    assert read_told(pod(), UID) == Told(status_is_false=False, message=None)
    assert read_told(pod(condition("False", "Unschedulable")), UID) == Told(
        status_is_false=True, message="full"
    )
    assert read_told(pod(condition("False", "SchedulingGated")), UID) == Told(
        status_is_false=True, message=None
    )
    assert read_told(pod(condition("Unknown", "x")), UID) == Told(
        status_is_false=False, message=None
    )


def test_another_pod_a_bound_one_and_nonsense_need_not_be_told() -> None:
    assert read_told(pod(uid="other"), UID) is None
    assert read_told(pod(node="n1"), UID) is None
    assert read_told(b"<html>", UID) is None


def test_the_time_of_the_transition_is_only_sent_when_the_status_changed() -> None:
    kept = waiting_patch(UID, "full", None)["status"]["conditions"][0]
    changed = waiting_patch(UID, "full", AT)["status"]["conditions"][0]
    assert "lastTransitionTime" not in kept
    assert changed["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_micro_times_have_six_digits() -> None:
    assert micro_time(AT) == "2026-01-02T03:04:05.000000Z"


def test_long_notes_are_cut_at_a_whole_character() -> None:
    assert shortened("x" * 1024) == "x" * 1024
    assert shortened("x" * 1025) == "x" * 1020 + " ..."
    assert shortened("x" + "é" * 600) == "x" + "é" * 509 + " ..."


def test_event_names_fit_however_long_the_pods_is() -> None:
    event = PodEvent(uid=UID, key=PodKey("ns", "p" * 253), reason="r", note="n", at=AT)
    assert len(event.name) == 253
    short = PodEvent(uid=UID, key=PodKey("ns", "p"), reason="r", note="n", at=AT)
    assert short.name == f"p.{int(AT.timestamp()) * 10**9:x}"
