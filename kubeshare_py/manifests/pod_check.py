"""What schedulers would make of a pod of a manifest, before there is such a pod."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

import msgspec

from kubeshare_py.dialects.dialect import Dialect, PodAsk
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.pod_keys import PREFIX
from kubeshare_py.domain.dialect_switch import ALL_ON, or_all
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.request import ContainerClaim
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.workloads import AdmissionAnswer, PodTemplate
from kubeshare_py.views.view import CheckedClaim, CheckedPod

#: The schedulerName of pods that name none.
_NONE_NAMED = ("", "default-scheduler")
#: Dialects of which pods get their schedulerName in every namespace: by admission, from the
#: controller of SharePods.
_TAKEN_ANYWHERE = frozenset({"sharedgpu", "sharepod"})
_ALIKE = 0.7
_BY_PLUGIN = "default-scheduler takes it, and the device plugin of its node chooses its GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchedulers:
    """The schedulers that a check knows of.

    `names` are their schedulerNames, the first one that of pods that name none, and `dialects`
    those of their profiles. `installed` has every dialect that a profile could enable, for pods
    with any schedulerName. Without
    `are_configured` they are those of a scheduler with default values, and there may be others.
    """

    names: tuple[str, ...]
    dialects: Dialects
    installed: Dialects
    are_configured: bool


_NOT_ASKED = AdmissionAnswer()


def check(
    template: PodTemplate,
    known: KnownSchedulers,
    namespace: str = "default",
    admission: AdmissionAnswer = _NOT_ASKED,
) -> CheckedPod:
    """Check one pod. Never raises. `namespace` is that of pods that name none."""
    try:
        # By way of JSON, as pods come from the API server: some fields stay undecoded.
        own = admission.pod or msgspec.json.encode(template.pod)
        fields = msgspec.json.decode(own, type=PodFields)
    except msgspec.ValidationError as error:
        place = f" of {template.path}" if template.path else ""
        return CheckedPod(template.owner, "", "", (), (f"{error}{place}{_advice(error)}",))
    namespace = fields.metadata.namespace or template.namespace or namespace or "default"
    used = _dialect_of(fields, known.installed)
    is_admitted = admission.pod is not None
    taken = _taken_by(fields, used, known, namespace, is_admitted=is_admitted)
    if is_admitted and _was_given(template.pod, taken, known):
        taken = replace(taken, reads_all=True, notes=())
    pod = _waiting(fields, known, taken, namespace)
    request = pod.request
    refused = (*taken.refused, *(_problems(pod) if taken.is_known else ()), *_forged(pod))
    if admission.refusal and not any(sentence in admission.refusal for sentence in refused):
        refused = (*refused, admission.refusal)
    return CheckedPod(
        template.owner,
        taken.scheduler,
        used.name if used else "",
        tuple(map(_claim, request.claims)) if request else (),
        refused,
        _words(used),
        template.path if template.is_one_of_several else "",
        tuple(
            dict.fromkeys((*taken.notes, *_of_unread(pod, taken), *pod.unlikely, *admission.notes))
        ),
    )


def _waiting(fields: PodFields, known: KnownSchedulers, taken: "_Taken", namespace: str) -> Pod:
    """The pod as it would wait for its scheduler."""
    spec = msgspec.structs.replace(fields.spec, node_name="", scheduler_name=taken.scheduler)
    metadata = msgspec.structs.replace(fields.metadata, namespace=namespace)
    waiting = msgspec.structs.replace(fields, spec=spec, metadata=metadata)
    reads_own = taken.is_known and not taken.reads_all
    return to_domain(waiting, known.dialects if reads_own else known.installed)


def _was_given(pod: object, taken: "_Taken", known: KnownSchedulers) -> bool:
    """Whether the API server gave a pod that names none its scheduler, of unknown configuration.

    Admission knows the dialects of the scheduler's profiles: it takes pods of no others.
    """
    spec = pod.get("spec") if isinstance(pod, dict) else None
    named = spec.get("schedulerName", "") if isinstance(spec, dict) else ""
    return not known.are_configured and taken.is_known and named in _NONE_NAMED


@dataclass(frozen=True, slots=True)
class _Taken:
    """The scheduler that takes a pod, and what that depends on.

    `reads_all`: its profile has the pod's dialect, whether it is configured here or not.
    """

    scheduler: str
    is_known: bool
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reads_all: bool = False


def _taken_by(
    pod: PodFields,
    used: Dialect | None,
    known: KnownSchedulers,
    namespace: str,
    *,
    is_admitted: bool,
) -> _Taken:
    scheduler, first = pod.spec.scheduler_name, known.names[0]
    if scheduler in known.names:
        return _Taken(scheduler, True, notes=_other_dialect(used, scheduler, known))
    if scheduler not in _NONE_NAMED:
        return _of_another(pod, used, known)
    if _is_taken_anywhere(pod, used) and not is_admitted:
        return _Taken(first, True)
    if used is None or not _asks_in_own_keys(pod, used):
        note = f"{_BY_PLUGIN}; {first} takes it by {ALL_ON}"
        return _Taken("default-scheduler", False, notes=() if used is None else (note,))
    remedy = f"kubectl label namespace {namespace} kubeshare.io/dialects=true"
    if is_admitted:
        why = f"default-scheduler would get it, which knows nothing of dialect {used.name}"
        sentence = f"{why}: {remedy}, or set schedulerName: {first}{or_all([used.name])}"
        return _Taken("default-scheduler", False, refused=(sentence,))
    note = f"{first} takes it where the namespace opted in ({remedy}); else nothing places it"
    # A label of its namespace changes nothing while the dialect is off.
    return _Taken(first, True, notes=_other_dialect(used, first, known) or (note,))


def _is_taken_anywhere(pod: PodFields, used: Dialect | None) -> bool:
    """Whether admission, or a controller, gives the pod its schedulerName in every namespace."""
    if used is not None:
        return used.name in _TAKEN_ANYWHERE
    keys = (*(pod.metadata.labels or ()), *(pod.metadata.annotations or ()))
    return any(key.startswith(PREFIX) for key in keys)


def _of_another(pod: PodFields, used: Dialect | None, known: KnownSchedulers) -> _Taken:
    """A pod that names a scheduler which is not known."""
    scheduler = pod.spec.scheduler_name
    if used is None:
        return _Taken(scheduler, False)
    is_own = _asks_in_own_keys(pod, used)
    alike = get_close_matches(scheduler, known.names, n=1, cutoff=_ALIKE)
    meant = f"; did you mean {alike[0]}?" if alike else ""
    if alike or (known.are_configured and is_own):
        sentence = f"no scheduler here is called {scheduler}: there is {listed(known.names)}{meant}"
        return _Taken(scheduler, False, (sentence,))
    note = f"whether a scheduler called {scheduler} reads {used.name} only --config can say"
    return _Taken(scheduler, False, notes=(note,) if is_own else ())


def _other_dialect(used: Dialect | None, scheduler: str, known: KnownSchedulers) -> tuple[str, ...]:
    """A note if the pod asks in a dialect that its profile does not enable."""
    if used is None or used.name in {one.name for one in known.dialects.of(scheduler).dialects}:
        return ()
    which = "its profile" if known.are_configured else "a profile of default values"
    more = "" if known.are_configured else ", or name the scheduler's configuration with --config"
    how = or_all([used.name])
    return (f"{which} does not enable dialect {used.name}: add it to the profile{how}{more}",)


def _asks_in_own_keys(pod: PodFields, dialect: Dialect) -> bool:
    """Whether the pod asks by a key that only this dialect gives a meaning."""
    ask = _ask(pod, dialect.owns.resources | dialect.owns.contested)
    asked = {name for one in ask.containers for name, amount in one.amounts if amount}
    return not asked or bool(asked - dialect.owns.contested)


def _ask(pod: PodFields, resources: frozenset[str]) -> PodAsk:
    meta, spec = pod.metadata, pod.spec
    amounts = container_amounts(spec.init_containers, spec.containers, resources)
    return PodAsk(meta.labels or {}, meta.annotations or {}, amounts)


def _dialect_of(pod: PodFields, dialects: Dialects) -> Dialect | None:
    """The only dialect of which the pod has keys, whether it can read them or not."""
    table = dialects.every
    return table.dialect_of(_ask(pod, table.resources))


def _words(dialect: Dialect | None) -> str:
    if dialect is None or not dialect.words.documentation:
        return ""
    return f"{dialect.words.title or dialect.name}: {dialect.words.documentation}"


def _problems(pod: Pod) -> tuple[str, ...]:
    problems = [str(pod.problem)] if pod.problem else []
    if pod.unsupported:
        problems.append(f"not supported yet: {listed(pod.unsupported)}")
    return tuple(problems)


def _forged(pod: Pod) -> tuple[str, ...]:
    """AdmissionAnswer refuses such annotations on every pod."""
    if not pod.stale_results:
        return ()
    return (f"only schedulers write annotations {listed(pod.stale_results)}",)


def _of_unread(pod: Pod, taken: _Taken) -> tuple[str, ...]:
    """A note about a resource of GPUs that no dialect reads, on a pod of another scheduler."""
    problem = pod.problem
    if taken.is_known or taken.refused or problem is None or problem.field[:10] != "resources[":
        return ()
    return (str(problem),) if "did you mean" in problem.rule else (_BY_PLUGIN,)


def _claim(one: ContainerClaim) -> CheckedClaim:
    claim = one.claim
    return CheckedClaim(
        claim.count,
        claim.milli,
        one.limit_milli,
        str(one.container) if one.container else "",
        claim.memory_bytes,
        claim.exclusive,
        claim.models,
    )


def _advice(error: msgspec.ValidationError) -> str:
    text = str(error)
    is_text = "labels" in text or "annotations" in text
    return "; quote it: values of labels and annotations are texts" if is_text else ""
