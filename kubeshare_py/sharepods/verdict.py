"""What a SharePod and the pod of its name mean together: what to request, and what to show."""

from dataclasses import dataclass, replace

from kubeshare_py.domain.printable import MAX_MESSAGE, beginning, listed, printable
from kubeshare_py.sharepods.effects import AdoptPod, CreatePod, DeletePod
from kubeshare_py.sharepods.pod_behind import FieldHashes, PodBehind, PodMirror
from kubeshare_py.sharepods.share_pod import (
    ConditionType,
    SharePod,
    SharePodCondition,
    SharePodReason,
    SharePodStatus,
)

#: KubeShare 1.0's texts.
SYNCED = "SharePod synced successfully"
LEFT_OUT = "; what its pod has in labels, annotations or status is too long to be shown here"
VALUE_ERROR = "Value error: "
RESOURCE_EXISTS = "Resource {!r} already exists and is not managed by SharePod"
FORMER_POD = "the pod of an earlier SharePod of this name is still there"
EDITS_IGNORED = "changed after the pod was bound, and ignored until the pod is created anew: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`request` is for the pod. `card_name` is the annotation to write, None to leave it."""

    status: SharePodStatus
    request: CreatePod | DeletePod | AdoptPod | None = None
    card_name: str | None = None


def judge(share: SharePod, pod: PodBehind | None, last: PodMirror | None, refusal: str) -> Verdict:
    """Judge a SharePod and the pod of its name.

    `last` is its former pod's, which is gone, and `refusal` why the API server refuses the pod.
    """
    if pod is not None and pod.owner == share.uid:
        return _with_its_pod(share, pod)
    before = share.status if last is None else replace(share.status, mirror=last)
    if share.is_deleting or share.is_finished(before.mirror.phase):
        return Verdict(status=before)
    if share.problem:
        return Verdict(status=_failing(before, *_value_error(share)))
    if pod is not None:
        return _with_another(share, pod, before)
    if refusal:
        before = _failing(before, SharePodReason.POD_REFUSED, refusal)
    return Verdict(status=before, request=CreatePod(share))


def edited(before: FieldHashes, now: FieldHashes) -> list[str]:
    """The fields that differ; none if it is not known what they were or are."""
    if not (before and now):
        return []
    return sorted({name for name, _ in {*before} ^ {*now}})


def _with_its_pod(share: SharePod, pod: PodBehind) -> Verdict:
    changed = edited(pod.field_hashes, share.template.field_hashes)
    replaceable = changed and not (pod.is_bound or pod.is_deleting or share.is_deleting)
    status = SharePodStatus(mirror=_shown_of(share, pod))
    if replaceable and share.problem:
        return Verdict(status=_failing(status, *_value_error(share)))
    said = SYNCED + LEFT_OUT if pod.mirror.is_cut else SYNCED
    conditions = [_condition(SharePodReason.SYNCED, said, is_true=True)]
    if changed and pod.is_bound:
        ignored = _condition(
            SharePodReason.EDITS_IGNORED,
            EDITS_IGNORED + listed(changed),
            is_true=True,
            kind=ConditionType.EDITS_IGNORED,
        )
        conditions.append(ignored)
    return Verdict(
        status=replace(status, conditions=_as_shown(share, conditions)),
        request=DeletePod(share.key, share.uid, pod.uid, pod.version) if replaceable else None,
        card_name=_card_name(share, pod),
    )


def _shown_of(share: SharePod, pod: PodBehind) -> PodMirror:
    """What is shown of a pod; KubeShare 1.0 wrote on the SharePod alone which card its pods got."""
    known = share.status.mirror
    if pod.is_marked or known.pod_uid != pod.uid:
        return pod.mirror
    return replace(
        pod.mirror,
        device=pod.mirror.device or known.device,
        port=pod.mirror.port or known.port,
    )


def _with_another(share: SharePod, pod: PodBehind, before: SharePodStatus) -> Verdict:
    if pod.is_marked and not (pod.has_controller or pod.is_deleting):
        return Verdict(status=before, request=AdoptPod(share, pod.uid))
    if pod.owner:
        return Verdict(status=_failing(before, SharePodReason.FORMER_POD, FORMER_POD))
    text = RESOURCE_EXISTS.format(share.key.name).replace("'", '"')
    return Verdict(status=_failing(before, SharePodReason.RESOURCE_EXISTS, text))


def _card_name(share: SharePod, pod: PodBehind) -> str | None:
    """The name that the scheduler gave, unless the SharePod shows it, or its user gave one."""
    found = pod.card_name if pod.is_bound else ""
    if share.chooses_card_name or found == share.card_name:
        return None
    return found


def _value_error(share: SharePod) -> tuple[SharePodReason, str]:
    return SharePodReason.VALUE_ERROR, VALUE_ERROR + share.problem


def _failing(before: SharePodStatus, reason: SharePodReason, message: str) -> SharePodStatus:
    return replace(before, conditions=(_condition(reason, message, is_true=False),))


def _condition(
    reason: SharePodReason,
    message: str,
    *,
    is_true: bool,
    kind: ConditionType = ConditionType.SYNCED,
) -> SharePodCondition:
    # As it can be shown: another text than the one that is stored would be written for ever.
    shown = beginning(printable(message), MAX_MESSAGE)
    return SharePodCondition(type=kind, is_true=is_true, reason=reason, message=shown)


def _as_shown(
    share: SharePod, conditions: list[SharePodCondition]
) -> tuple[SharePodCondition, ...]:
    """The conditions in the order in which the SharePod shows them."""
    shown = [one.type for one in share.status.conditions]
    order = {kind: at for at, kind in enumerate(shown)}
    return tuple(sorted(conditions, key=lambda one: order.get(one.type, len(order))))
