"""The reconciler, one behaviour each; random histories are in test_any_history."""

import pytest

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.sharepods import figures
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    EffectAnswered,
    PodBehindGone,
    PodBehindSeen,
    PodFound,
    PodsBehindListed,
    ReportSharePod,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodEffect,
    SharePodGone,
    SharePodSeen,
    SharePodsListed,
    SharePodStored,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.reconciler import Reconciler, SharePodRecord, judge
from kubeshare_py.sharepods.share_pod import (
    ConditionType,
    PodBehind,
    SharePod,
    SharePodStatus,
    SharePodTemplate,
)
from tests.sharepods.builders import KEY, mirror, pod, share, template


def started(*known: SharePod, pods: tuple[PodBehind, ...] = ()) -> Reconciler:
    """A reconciler that has seen both lists at time 0."""
    found = Reconciler()
    found.handle(SharePodsListed(known), 0.0)
    found.handle(PodsBehindListed(pods=pods, asked_at=0.0), 0.0)
    return found


def answered(
    reconciler: Reconciler, effect: SharePodEffect, outcome: RequestOutcome, now: float = 0.0
) -> list[SharePodEffect]:
    assert not isinstance(effect, ReportSharePod)
    return reconciler.handle(EffectAnswered(effect, outcome), now)


def stored(effect: SharePodEffect, version: int) -> SharePodStored:
    assert isinstance(effect, WriteStatus)
    return SharePodStored(replace(effect.share_pod, status=effect.status, version=str(version)))


def waited(reconciler: Reconciler) -> list[SharePodEffect]:
    """What it does when the time comes that it waits for."""
    return reconciler.handle(TimePassed(), reconciler.wake_at())


def condition_of(effect: SharePodEffect, kind: ConditionType = ConditionType.SYNCED) -> str:
    assert isinstance(effect, WriteStatus)
    found = effect.status.condition(kind)
    return found.reason if found is not None else ""


def test_nothing_is_done_before_both_lists_are_read() -> None:
    reconciler = Reconciler()
    assert reconciler.handle(SharePodsListed((share(),)), 0.0) == []
    assert not reconciler.is_ready
    listed = PodsBehindListed(pods=(), asked_at=0.0)
    assert reconciler.handle(listed, 0.0) == [CreatePod(share())]


def test_a_pod_that_is_there_is_not_made_but_shown() -> None:
    reconciler = started(share(), pods=(pod(),))
    [write] = waited(reconciler)
    assert condition_of(write) == "Synced"
    [report] = answered(reconciler, write, stored(write, 2))
    assert report == ReportSharePod(KEY, share().uid, "Synced", "SharePod synced successfully")
    assert reconciler.wake_at() == float("inf")


def test_a_status_settles_before_it_is_written() -> None:
    reconciler = started(share(), pods=(pod(),))
    reconciler.handle(PodBehindSeen(pod(version=2, node="n1")), 0.2)
    [write] = waited(reconciler)
    assert isinstance(write, WriteStatus)
    assert write.status.mirror.node == "n1"


def test_an_end_is_written_at_once() -> None:
    reconciler = started(share(restart_policy="Never"), pods=(pod(node="n1", phase="Running"),))
    [write] = waited(reconciler)
    answered(reconciler, write, stored(write, 2))
    ended = pod(version=2, node="n1", phase="Failed")
    [write] = reconciler.handle(PodBehindSeen(ended), 9.0)
    assert isinstance(write, WriteStatus)
    assert write.status.mirror.phase == "Failed"


def test_values_that_are_wrong_make_no_pod() -> None:
    reconciler = Reconciler()
    reconciler.handle(SharePodsListed((share(problem="kubeshare/gpu_mem is missing"),)), 0.0)
    [write] = reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    assert condition_of(write) == "ErrValueError"
    [report] = answered(reconciler, write, stored(write, 2))
    assert isinstance(report, ReportSharePod)
    assert report.note == "Value error: kubeshare/gpu_mem is missing"


def test_a_refused_pod_is_tried_again_ever_later_and_at_once_after_an_edit() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
    [write] = answered(reconciler, create, RequestFailed(message="spec is bad", is_definite=True))
    assert condition_of(write) == "ErrPodRefused"
    answered(reconciler, write, stored(write, 2))
    pauses, now = [], 0.0
    for _ in range(10):
        pauses.append(reconciler.wake_at() - now)
        now = reconciler.wake_at()
        [again] = waited(reconciler)
        assert isinstance(again, CreatePod)
        answered(reconciler, again, RequestFailed(message="spec is bad", is_definite=True), now)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    edit = share(version=3, content="second")
    assert reconciler.handle(SharePodSeen(edit), now) == [CreatePod(edit)]


def test_a_server_that_is_away_says_nothing_about_the_pod() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
    assert answered(reconciler, create, RequestFailed(message="cut", retry_after_s=7.0)) == []
    assert reconciler.wake_at() == 7.0


def test_what_another_pod_of_the_name_is_decides_what_is_said() -> None:
    for other, reason in (
        (pod("o1", owner="", is_marked=False), "ErrResourceExists"),
        (pod("o1", owner="s0"), "FormerPod"),
    ):
        reconciler = Reconciler()
        reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
        [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
        assert answered(reconciler, create, PodFound(other)) == []
        [write] = waited(reconciler)
        assert condition_of(write) == reason
        answered(reconciler, write, stored(write, 2))
        [again] = reconciler.handle(PodBehindGone(other), 1.0)
        assert isinstance(again, CreatePod)


def test_a_pod_without_owner_that_was_made_here_is_adopted() -> None:
    orphan = pod("p1", owner="", is_marked=True)
    reconciler = started(share(), pods=())
    create = CreatePod(share())
    [adopt] = answered(reconciler, create, PodFound(orphan))
    assert adopt == AdoptPod(share(), orphan.uid)


def test_an_edit_replaces_a_pod_that_waits_and_no_other() -> None:
    edit = share(version=2, content="second")
    waits = started(share(), pods=(pod(version=5),))
    assert waits.handle(SharePodSeen(edit), 0.1) == [DeletePod(KEY, share().uid, PodUid("p1"), "5")]
    bound = started(share(), pods=(pod(version=5, node="n1"),))
    assert bound.handle(SharePodSeen(edit), 0.1) == []
    [write] = waited(bound)
    assert condition_of(write, ConditionType.EDITS_IGNORED) == "EditsIgnored"
    assert isinstance(write, WriteStatus)
    assert write.status.conditions[1].message.endswith(": spec.containers")


def test_a_pod_that_was_deleted_is_made_again_only_once_it_is_gone() -> None:
    reconciler = started(share(), pods=(pod(version=5),))
    edit = share(version=2, content="second")
    [delete] = reconciler.handle(SharePodSeen(edit), 0.1)
    assert answered(reconciler, delete, RequestDone(), 0.1) == []
    assert reconciler.handle(PodBehindGone(pod(version=6)), 0.2) == [CreatePod(edit)]


@pytest.mark.parametrize(
    ("policy", "phase", "again"),
    [
        ("Always", "Succeeded", True), ("Always", "Failed", True),
        ("OnFailure", "Succeeded", False), ("OnFailure", "Failed", True),
        ("Never", "Succeeded", False), ("Never", "Failed", False), ("Never", "Running", True),
    ],
)  # fmt: skip
def test_the_restart_policy_says_whether_a_pod_is_made_again(
    policy: str, phase: str, again: bool
) -> None:
    """In KubeShare 1.0 a pod that finished as its restart policy wants is not made again."""
    reconciler = started(share(restart_policy=policy), pods=(pod(node="n1", phase="Running"),))
    [effect] = reconciler.handle(PodBehindGone(pod(node="n1", phase=phase)), 0.1)
    assert isinstance(effect, CreatePod) == again
    if not again:
        assert isinstance(effect, WriteStatus)
        assert effect.status.mirror.phase == phase


def test_how_it_ended_is_known_after_a_restart_too() -> None:
    [write] = started_with(share(restart_policy="Never"), pod(node="n1", phase="Succeeded"))
    assert isinstance(write, WriteStatus)
    shown = replace(write.share_pod, status=write.status)
    assert started(shown).wake_at() == float("inf")


def test_a_share_pod_that_is_being_deleted_gets_no_new_pod() -> None:
    reconciler = started(share(is_deleting=True), pods=(pod(),))
    [write] = reconciler.handle(PodBehindGone(pod()), 0.1)
    assert isinstance(write, WriteStatus)


def test_a_pod_that_came_too_late_is_deleted_again() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
    reconciler.handle(SharePodGone(KEY, share().uid), 0.0)
    [delete] = answered(reconciler, create, PodFound(pod()))
    assert delete == DeletePod(KEY, share().uid, PodUid("p1"))


def test_a_pod_that_was_deleted_before_its_answer_came_is_not_believed() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
    reconciler.handle(PodBehindSeen(pod()), 0.0)
    reconciler.handle(PodBehindGone(pod()), 0.0)
    effects = answered(reconciler, create, PodFound(pod()))
    assert [type(one) for one in effects] == [CreatePod]


def test_a_list_that_is_older_than_an_answer_does_not_lose_its_pod() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [create] = reconciler.handle(SharePodsListed((share(),)), 0.0)
    answered(reconciler, create, PodFound(pod()), 2.0)
    assert reconciler.handle(PodsBehindListed(pods=(), asked_at=1.0), 2.1) == []
    [again] = reconciler.handle(PodsBehindListed(pods=(), asked_at=3.0), 3.0)
    assert isinstance(again, CreatePod)


def test_older_states_are_not_believed() -> None:
    reconciler = started(share(version=9), pods=(pod(version=9, node="n1"),))
    reconciler.handle(PodBehindSeen(pod(version=8)), 0.1)
    reconciler.handle(SharePodSeen(share(version=8, content="old")), 0.1)
    [write] = waited(reconciler)
    assert isinstance(write, WriteStatus)
    assert (write.share_pod.version, write.status.mirror.node) == ("9", "n1")


def test_the_schedulers_name_of_the_virtual_gpu_is_shown_and_the_users_is_kept() -> None:
    bound = pod(node="n1", card_name="abcde")
    [write] = started_with(share(), bound)
    assert write == WriteCardName(share(), "abcde")
    assert started_with(share(card_name="mine"), bound) == []
    shown = share(card_name="fghij", assigned_card_name="fghij")
    assert started_with(shown, bound) == [WriteCardName(shown, "abcde")]
    assert started_with(shown, pod()) == [WriteCardName(shown, "")]


def started_with(known: SharePod, its_pod: PodBehind) -> list[SharePodEffect]:
    found = Reconciler()
    found.handle(SharePodsListed((known,)), 0.0)
    return found.handle(PodsBehindListed(pods=(its_pod,), asked_at=0.0), 0.0)


def test_what_kubeshare_wrote_about_its_own_pods_stays() -> None:
    """Of KubeShare 1.0's pods only the SharePod says which card they have."""
    old = pod(node="n1", is_marked=False, field_hashes=())
    shown = replace(old.mirror, device="GPU-1", port=50052)
    known = share(status=replace(share().status, mirror=shown))
    [write] = waited(started(known, pods=(old,)))
    assert isinstance(write, WriteStatus)
    assert (write.status.mirror.device, write.status.mirror.port) == ("GPU-1", 50052)
    assert condition_of(write, ConditionType.EDITS_IGNORED) == ""


def test_a_message_is_written_as_it_can_be_shown() -> None:
    reconciler = Reconciler()
    reconciler.handle(SharePodsListed((share(problem="x\x1b" + "y" * 9000),)), 0.0)
    [write] = reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    answered(reconciler, write, stored(write, 2))
    assert reconciler.wake_at() == float("inf")
    assert isinstance(write, WriteStatus)
    assert "\x1b" not in write.status.conditions[0].message


def test_share_pods_that_cannot_be_read_stay_as_they_are_known() -> None:
    reconciler = started(share(), pods=(pod(),))
    reconciler.handle(SharePodsListed((), unreadable=frozenset({KEY})), 1.0)
    assert figures.phases(reconciler) == ("",)
    reconciler.handle(SharePodsListed(()), 2.0)
    assert figures.phases(reconciler) == ()


def test_figures_count_what_is_shown() -> None:
    reconciler = Reconciler()
    reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    [write] = reconciler.handle(SharePodsListed((share(problem="x"),)), 0.0)
    assert figures.under_way(reconciler) == 1
    answered(reconciler, write, stored(write, 2))
    assert figures.failing(reconciler) == ("ErrValueError",)
    assert template() == share().template


def test_what_a_share_pod_shows_of_its_pod_is_kept_once() -> None:
    record = SharePodRecord(key=KEY)
    record.take_pod(pod())
    record.take_share_pod(share(status=SharePodStatus(mirror=mirror())))
    assert record.share_pod is not None
    assert record.pod is not None
    assert record.share_pod.status.mirror is record.pod.mirror


@pytest.mark.slow
def test_a_pod_of_a_share_pod_that_is_too_long_by_now_stays() -> None:
    """One that an earlier version made."""
    none = SharePodTemplate(manifest=b"", field_hashes=())
    for node in ("", "n1"):
        verdict = judge(share(template=none, problem="too long"), pod(node=node), None, "")
        assert verdict.request is None
        assert [one.reason for one in verdict.status.conditions] == ["Synced"]
