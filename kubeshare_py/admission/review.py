"""The webhook: an AdmissionReview in, its answer out. It never refuses anything.

Refusing is for the ValidatingAdmissionPolicies, which see what became of the pod: one that was not
understood here comes without its variables and is stopped there.
"""

from collections.abc import Callable, Mapping

from kubeshare_py.admission.pod_patch import ephemeral_patch, pod_patch
from kubeshare_py.dialects.sharedgpu import ISOLATION
from kubeshare_py.domain.isolation import IsolationChoice
from kubeshare_py.isolation.containers import NO_CARD, Injection, injection
from kubeshare_py.isolation.reach import reach
from kubeshare_py.manifests.admission import (
    CreatedPod,
    Operation,
    Request,
    allowed,
    read_pod,
    read_review,
)

#: What each profile's pods may choose from, by schedulerName.
Choices = Mapping[str, IsolationChoice]


def answer(body: bytes, choices: Choices, runtime_class: str = "") -> bytes | None:
    """Answer a review of a pod that may be ours; None when it is no review and has no uid.

    `runtime_class`: for pods that get a card and name none; "" leaves them without.
    """

    return _answer(body, lambda pod: _injected(pod, choices), runtime_class)


def new_pod_patch(pod: CreatedPod, choices: Choices) -> list[Operation]:
    """The patch of a new pod, without a RuntimeClass; empty for pods of other schedulers."""
    found = _injected(pod, choices)
    return [] if found is None else pod_patch(pod, found)


def _injected(pod: CreatedPod, choices: Choices) -> Injection | None:
    choice = choices.get(pod.spec.scheduler_name)
    if choice is None:
        return None
    labels = pod.metadata.labels or {}
    return injection(reach(labels), choice.chosen(labels.get(ISOLATION, "")))


def answer_of_others(body: bytes) -> bytes | None:
    """Answer a review of another scheduler's pod that asks for no GPU: it is told that it has none.

    Which pods these are is said in the webhook's match conditions.
    """
    return _answer(body, lambda _: NO_CARD)


def _answer(
    body: bytes, injected: Callable[[CreatedPod], Injection | None], runtime_class: str = ""
) -> bytes | None:
    request = read_review(body)
    if request is None:
        return None
    patch = _patch(request, injected, runtime_class)
    if isinstance(patch, str):
        warning = f"kubeshare-admission leaves this pod as it is: {patch}"
        return allowed(request.uid, warnings=(warning,))
    return allowed(request.uid, patch)


def _patch(
    request: Request, injected: Callable[[CreatedPod], Injection | None], runtime_class: str
) -> list[Operation] | str:
    pod = read_pod(request.object)
    if isinstance(pod, str):
        return pod
    found = injected(pod)
    if found is None:
        return []
    if request.sub_resource == "ephemeralcontainers":
        before = read_pod(request.old_object)
        return before if isinstance(before, str) else ephemeral_patch(pod, before)
    created = request.operation == "CREATE" and not request.sub_resource
    return pod_patch(pod, found, runtime_class) if created else []
