"""The webhook: an AdmissionReview in, its answer out.

A new pod with labels or annotations `sharedgpu/*` that the scheduler would not understand is
refused, with the scheduler's own sentence. All other problems are left to the
ValidatingAdmissionPolicies, which see the resulting pod: a pod that could not be read here lacks
its variables and is refused there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeshare_py.admission.admitted_pods import added_patch, admitted
from kubeshare_py.admission.dialect_pods import (
    TakenResources,
    has_our_keys,
    names_none,
    scheduler_by_resources,
)
from kubeshare_py.admission.pod_patch import ephemeral_patch, pod_patch
from kubeshare_py.dialects.container_visibility import container_variables, container_visibility
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.dialects.standing import ISOLATION
from kubeshare_py.domain.isolation import IsolationBackend, IsolationChoice
from kubeshare_py.isolation.containers import NO_CARD, PodInjection, container_injections, injection
from kubeshare_py.manifests.admission import (
    CreatedPod,
    Operation,
    Request,
    SpecFields,
    allowed,
    read_pod,
    read_review,
    refused,
)
from kubeshare_py.manifests.pods.container_amounts import container_amounts

#: As HAMi's webhook refuses them; the API server would, later.
NO_CONTAINERS = "spec.containers: the pod has none"
#: The most containers of each kind of a pod that gets variables: some ten times what runs on a
#: node. Each gets up to 600 bytes, and any client of the port may send 70,000 of them.
MOST_CONTAINERS = 1024
#: The most labels, and the most annotations, of a pod that is looked into: each is compared with
#: the keys of all dialects, and a review may have 200,000.
MOST_KEYS = 1024
#: The isolation back-ends of each profile's pods, by schedulerName, in the order of the profiles.
Choices = Mapping[str, IsolationChoice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for pods that may be this scheduler's.

    Pods with `sharedgpu/*` that name no scheduler get the first of `choices`, and pods that ask for
    `taken` resources the scheduler of these; the webhooks' match conditions and selectors decide
    whether it is called for them. `validates`: pods that the scheduler would not
    understand are refused. `runtime_class` is for pods with a card that name none; "" leaves them
    without. `left_alone` are variables that are left to pods and images. `dialects` are the
    profiles'.
    """

    choices: Choices
    validates: bool = True
    runtime_class: str = ""
    left_alone: frozenset[str] = frozenset()
    dialects: Dialects = SHAREDGPU_ALONE
    taken: TakenResources = field(default_factory=dict)


def answer(body: bytes, rules: Rules) -> bytes | None:
    """Answer a review of a pod that may be ours; None if it is no review and has no uid."""
    request = read_review(body)
    if request is None:
        return None
    pod = read_pod(request.object)
    if isinstance(pod, str):
        return _left_alone(request, pod)
    if not _is_new(request):
        ours = pod.spec.scheduler_name in rules.choices
        return _added(request, pod) if ours else allowed(request)
    problem = _too_many_keys(pod)
    if problem:
        return _left_alone(request, problem)
    scheduler = _scheduler_of(pod, rules)
    return (
        _judged(request, pod, scheduler, rules) if scheduler in rules.choices else allowed(request)
    )


def _judged(request: Request, pod: CreatedPod, scheduler: str, rules: Rules) -> bytes:
    """The answer about a new pod that is `scheduler`'s, one of the rules' choices."""
    problem = too_many_containers(pod.spec)
    if problem:
        return refused(request, problem)
    table = rules.dialects.of(scheduler)
    asked = _asked(pod, table)
    problem = _refusal(pod, asked, table, rules)
    return (
        refused(request, problem)
        if problem
        else allowed(request, _patch(pod, scheduler, asked, rules))
    )


def new_pod_patch(pod: CreatedPod, rules: Rules) -> list[Operation]:
    """The patch of a new pod; empty for pods of other schedulers."""
    scheduler = _scheduler_of(pod, rules)
    if scheduler not in rules.choices:
        return []
    return _patch(pod, scheduler, _asked(pod, rules.dialects.of(scheduler)), rules)


def too_many_containers(spec: SpecFields) -> str:
    """Why a pod with so many containers gets no variables; "" if there are not too many."""
    kinds = {
        "containers": spec.containers,
        "initContainers": spec.init_containers,
        "ephemeralContainers": spec.ephemeral_containers,
    }
    for kind, found in kinds.items():
        if len(found or ()) > MOST_CONTAINERS:
            return f"spec.{kind}: the pod has {len(found or ())}, more than {MOST_CONTAINERS}"
    return ""


def _too_many_keys(pod: CreatedPod) -> str:
    """Why a pod is not looked into for its labels and annotations; "" if there are not too many."""
    for what, found in (("labels", pod.metadata.labels), ("annotations", pod.metadata.annotations)):
        if len(found or ()) > MOST_KEYS:
            return f"metadata.{what}: the pod has {len(found or ())}, more than {MOST_KEYS}"
    return ""


def _patch(pod: CreatedPod, scheduler: str, asked: PodAsk, rules: Rules) -> list[Operation]:
    """The patch of a new pod that is `scheduler`'s, one of the rules' choices."""
    is_named = scheduler == pod.spec.scheduler_name
    named = [] if is_named else [Operation("/spec/schedulerName", scheduler)]
    labels = pod.metadata.labels or {}
    backend = rules.choices[scheduler].chosen(labels.get(ISOLATION, ""))
    table = rules.dialects.of(scheduler)
    injected = _injected(asked, table, backend)
    patch = pod_patch(pod, injected.without(rules.left_alone), rules.runtime_class)
    added = admitted(pod, table, asked)
    if not isinstance(added, str):
        patch += added_patch(pod, added, patch)
    return [*named, *patch]


def _injected(asked: PodAsk, table: DialectTable, backend: IsolationBackend) -> PodInjection:
    """What the containers of a new pod get, by what it asks for in its profile's dialects."""
    each = container_visibility(table, asked)
    if each:
        return container_injections(each, backend, container_variables(table, asked))
    return PodInjection(injection(table.visibility(asked), backend))


def _asked(pod: CreatedPod, table: DialectTable) -> PodAsk:
    """What the dialects of the pod's profile see of it."""
    meta, spec, owned = pod.metadata, pod.spec, table.resources
    amounts = container_amounts(spec.init_containers, spec.containers, owned) if owned else ()
    return PodAsk(meta.labels or {}, meta.annotations or {}, amounts)


def answer_of_others(body: bytes) -> bytes | None:
    """Answer a review of another scheduler's pod that asks for no GPU: its containers get `void`.

    The webhook's match conditions select these pods.
    """
    request = read_review(body)
    if request is None:
        return None
    pod = read_pod(request.object)
    if isinstance(pod, str):
        return _left_alone(request, pod)
    if not _is_new(request):
        return _added(request, pod)
    problem = too_many_containers(pod.spec)
    if problem:
        return refused(request, problem)
    return allowed(request, pod_patch(pod, PodInjection(NO_CARD)))


def _is_new(request: Request) -> bool:
    return request.operation == "CREATE" and not request.sub_resource


def _scheduler_of(pod: CreatedPod, rules: Rules) -> str:
    """Its schedulerName; if it names none, that of what it asks for."""
    own = pod.spec.scheduler_name
    if not names_none(pod):
        return own
    if has_our_keys(pod):
        return next(iter(rules.choices))
    return own if own in rules.choices else scheduler_by_resources(pod, rules.taken) or own


def _refusal(pod: CreatedPod, asked: PodAsk, table: DialectTable, rules: Rules) -> str:
    """Why a new pod of ours is refused, "" if it is not."""
    if not pod.spec.containers:
        return NO_CONTAINERS
    problem = _problem(pod, asked, table) if rules.validates else ""
    added = admitted(pod, table, asked)
    return problem or (added if isinstance(added, str) else "")


def _problem(pod: CreatedPod, asked: PodAsk, table: DialectTable) -> str:
    """The scheduler's sentence; "" if the pod is placed already or has no problem."""
    if pod.spec.node_name:
        return ""
    return str(first_problem(asked.labels, asked.annotations, table, asked.containers) or "")


def _added(request: Request, pod: CreatedPod) -> bytes:
    """The answer about containers that may have been added to the pod; otherwise it allows."""
    if request.sub_resource != "ephemeralcontainers":
        return allowed(request)
    problem = too_many_containers(pod.spec)
    if problem:
        return refused(request, problem)
    before = read_pod(request.old_object)
    if isinstance(before, str):
        return _left_alone(request, before)
    return allowed(request, ephemeral_patch(pod, before))


def _left_alone(request: Request, problem: str) -> bytes:
    warning = f"kubeshare-admission leaves this pod as it is: {problem}"
    return allowed(request, warnings=(warning,))
