"""The webhook: an AdmissionReview in, its answer out.

A new pod with labels or annotations `sharedgpu/*` that the scheduler would not understand is
refused, with the scheduler's own sentence. All other problems are left to the
ValidatingAdmissionPolicies, which see the resulting pod: a pod that could not be read here lacks
its variables and is refused there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubeshare_py.admission.dialect_pods import (
    TakenResources,
    has_our_keys,
    names_none,
    scheduler_by_resources,
)
from kubeshare_py.dialects.dialect import (
    NOTHING_ADDED,
    Admitted,
    AdmittingDialect,
    NewContainer,
    PodAsk,
)
from kubeshare_py.dialects.dialects import (
    SHAREDGPU_ALONE,
    Dialects,
    DialectTable,
    container_variables,
    container_visibility,
)
from kubeshare_py.dialects.pod_keys import ISOLATION
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.isolation.backends import HostVolume, Mount, Variable
from kubeshare_py.isolation.containers import (
    NO_CARD,
    PRELOAD,
    Injection,
    PodInjection,
    container_injections,
    injection,
)
from kubeshare_py.manifests.admission import (
    ContainerFields,
    CreatedPod,
    EnvVar,
    Operation,
    Request,
    SpecFields,
    VolumeFields,
    allowed,
    read_pod,
    read_review,
    refused,
)
from kubeshare_py.manifests.pods.effective_requests import container_amounts

# What the dialect of a new pod adds to it besides its cards, or why the dialect refuses it.


def dialect_additions(pod: CreatedPod, table: DialectTable, asked: PodAsk) -> Admitted | str:
    """What the pod's dialect adds to it; a sentence if it refuses the pod."""
    dialect = table.dialect_of(asked)
    if not isinstance(dialect, AdmittingDialect):
        return NOTHING_ADDED
    fields = dict(_containers(pod))
    containers = [
        NewContainer(
            name=one.name,
            container=one.container,
            amounts=dict(one.amounts),
            privileged=_is_privileged(fields[one.container]),
        )
        for one in asked.containers
    ]
    return dialect.admitted(containers, has_node=bool(pod.spec.node_name))


def added_patch(
    pod: CreatedPod, added: Admitted, before: Sequence[Operation]
) -> Iterator[Operation]:
    """The steps after those that give containers their cards (`before`), which may add `env`."""
    there = {step.path for step in before}
    for container, fields in _containers(pod):
        kind = "initContainers" if container.init else "containers"
        where = f"/spec/{kind}/{container.index}"
        limits = None if fields.resources is None else fields.resources.limits
        for resource, amount in added.limits.get(container, ()) if limits else ():
            if resource not in (limits or {}):
                name = resource.replace("~", "~0").replace("/", "~1")
                yield Operation(f"{where}/resources/limits/{name}", str(amount))
        named = {entry.name for entry in fields.env or ()}
        missing = [one for one in added.variables.get(container, ()) if one[0] not in named]
        if missing and not fields.env and f"{where}/env" not in there:
            yield Operation(f"{where}/env", [])
        for name, value in missing:
            yield Operation(f"{where}/env/-", {"name": name, "value": value})


def _containers(pod: CreatedPod) -> Iterator[tuple[ContainerRef, ContainerFields]]:
    """The init containers and the others, each with its place."""
    for init, found in ((True, pod.spec.init_containers), (False, pod.spec.containers)):
        for index, fields in enumerate(found or ()):
            yield ContainerRef(init, index), fields


def _is_privileged(container: ContainerFields) -> bool:
    context = container.security_context
    return context is not None and bool(context.privileged)


# A pod's JSON patch: the entries of the table `isolation.containers` that the pod lacks.
#
# Injected variables come first in a container's environment, so that the user's own entries may
# refer to them as $(NAME). Existing entries stay as they are: a second patch is empty. The
# admission policy's CEL (deploy/chart/kubeshare/templates/environment-policy.yaml) does the same,
# step by step.


def pod_patch(pod: CreatedPod, injection: PodInjection, runtime_class: str = "") -> list[Operation]:
    """The patch of a new pod.

    Its containers and init containers, sidecars included, and its volumes.

    `runtime_class` is set on a pod with a card that names none itself; "" sets none.
    """
    patch: list[Operation] = []
    entries = _EnvEntries()
    kinds = {"containers": pod.spec.containers, "initContainers": pod.spec.init_containers}
    for kind, containers in kinds.items():
        for index, container in enumerate(containers or ()):
            own = injection.of(ContainerRef(kind == "initContainers", index))
            patch += _container(f"/spec/{kind}/{index}", container, own, entries)
    patch += _volumes(pod.spec.volumes, injection.volumes)
    if runtime_class and injection.shows_cards and not pod.spec.runtime_class_name:
        patch.append(Operation("/spec/runtimeClassName", runtime_class))
    return patch


def ephemeral_patch(pod: CreatedPod, before: CreatedPod) -> list[Operation]:
    """The patch for containers added to a running pod: they get no card. Others cannot change."""
    old = {one.name for one in _ephemeral(before.spec)}
    entries = _EnvEntries()
    return [
        step
        for index, container in enumerate(_ephemeral(pod.spec))
        if container.name not in old
        for step in _container(f"/spec/ephemeralContainers/{index}", container, NO_CARD, entries)
    ]


def _ephemeral(spec: SpecFields) -> tuple[ContainerFields, ...]:
    return spec.ephemeral_containers or ()


class _EnvEntries(dict[int, list[object]]):
    """The variables of injections as entries, made once for all containers that get the same."""

    def of(self, injection: Injection) -> list[object]:
        """A new list of the entries, which the containers share."""
        found = self.get(id(injection))
        if found is None:
            found = self[id(injection)] = [_entry(one) for one in injection.variables]
        return [*found]


def _container(
    where: str, container: ContainerFields, injection: Injection, entries: _EnvEntries
) -> Iterator[Operation]:
    env = container.env or ()
    if not env:
        # One step for all: pods of many containers get a patch of half the size.
        whole = entries.of(injection)
        if injection.preload:
            whole.append({"name": PRELOAD, "value": injection.preload})
        if whole:
            yield Operation(f"{where}/env", whole)
        yield from _mounts(where, container, injection.mounts)
        return
    preload = list(_preload(f"{where}/env", env, injection.preload))
    there = _There(env, injection)
    missing = [
        entry
        for one, entry in zip(injection.variables, entries.of(injection), strict=True)
        if not there.has(one)
    ]
    yield from preload
    for entry in reversed(missing):
        yield Operation(f"{where}/env/0", entry)
    yield from _mounts(where, container, injection.mounts)


class _There:
    """The entries of a container that have the names of an injection's variables."""

    def __init__(self, env: tuple[EnvVar, ...], injection: Injection) -> None:
        """Each entry is looked at once: a container may have a hundred thousand."""
        names = {one.name for one in injection.variables}
        self._entries = {
            (one.name, one.value, _field_path(one)) for one in env if one.name in names
        }
        self._names = {name for name, _, _ in self._entries}

    def has(self, variable: Variable) -> bool:
        """Whether it is there; of a default any value counts."""
        if variable.is_default:
            return variable.name in self._names
        return (variable.name, variable.value, variable.field_path) in self._entries


def _field_path(entry: EnvVar) -> str:
    source = entry.value_from
    return source.field_ref.field_path if source and source.field_ref else ""


def _entry(variable: Variable) -> object:
    if not variable.field_path:
        return {"name": variable.name, "value": variable.value}
    source = {"fieldRef": {"fieldPath": variable.field_path}}
    return {"name": variable.name, "valueFrom": source}


def _preload(where: str, env: tuple[EnvVar, ...], library: str) -> Iterator[Operation]:
    """Put the library first in the user's last, and so effective, LD_PRELOAD."""
    if not library:
        return
    last = max((index for index, one in enumerate(env) if one.name == PRELOAD), default=None)
    if last is None:
        yield Operation(f"{where}/0", {"name": PRELOAD, "value": library})
    elif env[last].value_from is not None:
        # The kubelet resolves its value; a later entry of the same name may refer to it and wins.
        value = f"{library}:$({PRELOAD})"
        yield Operation(f"{where}/-", {"name": PRELOAD, "value": value})
    elif not f"{env[last].value}:".startswith(f"{library}:"):
        theirs = env[last].value
        yield Operation(f"{where}/{last}/value", f"{library}:{theirs}" if theirs else library)


def _mounts(
    where: str, container: ContainerFields, mounts: tuple[Mount, ...]
) -> Iterator[Operation]:
    taken = {one.mount_path for one in container.volume_mounts or ()}
    missing = [one for one in mounts if one.path not in taken]
    if missing and not taken:
        yield Operation(f"{where}/volumeMounts", [])
    for mount in missing:
        value: dict[str, object] = {"name": mount.volume, "mountPath": mount.path}
        if mount.sub_path_expr:
            value["subPathExpr"] = mount.sub_path_expr
        if mount.read_only:
            value["readOnly"] = True
        yield Operation(f"{where}/volumeMounts/-", value)


def _volumes(
    there: tuple[VolumeFields, ...] | None, volumes: tuple[HostVolume, ...]
) -> Iterator[Operation]:
    taken = {one.name for one in there or ()}
    missing = [one for one in volumes if one.name not in taken]
    if missing and not taken:
        yield Operation("/spec/volumes", [])
    for volume in missing:
        source = {"path": volume.path, "type": volume.kind}
        yield Operation("/spec/volumes/-", {"name": volume.name, "hostPath": source})


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
    added = dialect_additions(pod, table, asked)
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
    added = dialect_additions(pod, table, asked)
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
