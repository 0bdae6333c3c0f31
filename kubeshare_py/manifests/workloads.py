"""Objects that have pods: a user's `pod/x` or `job/x` in the API, and the pods in a manifest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.manifests.api_paths import CORE, collection_path, object_path
from kubeshare_py.manifests.common_definitions import ListMetadata, SelectorFields, query
from kubeshare_py.manifests.decoding import decoded

# A user's `pod/x`, `job/x` or `deployment/x`: its path, and its pods.
#
# Selectors: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of object that has pods: its plural name, the API that serves it, other names."""

    plural: str
    api: str
    names: tuple[str, ...]

    def path(self, namespace: str, name: str) -> str:
        """The path of one of them."""
        return object_path(self.api, self.plural, name, namespace)


_BATCH, _APPS = "/apis/batch/v1", "/apis/apps/v1"
POD = Workload("pods", CORE, ("pod", "pods", "po"))
#: KubeShare 1.0's; its pod has its name.
SHAREPOD = Workload("sharepods", "/apis/kubeshare.nthu/v1", ("sharepod", "sharepods", "shp"))
WORKLOADS = (
    Workload("jobs", _BATCH, ("job", "jobs")),
    Workload("deployments", _APPS, ("deployment", "deployments", "deploy")),
    Workload("replicasets", _APPS, ("replicaset", "replicasets", "rs")),
    Workload("statefulsets", _APPS, ("statefulset", "statefulsets", "sts")),
    Workload("daemonsets", _APPS, ("daemonset", "daemonsets", "ds")),
    Workload("replicationcontrollers", CORE, ("replicationcontroller", "rc")),
)


_KINDS = (POD, *WORKLOADS, SHAREPOD)


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """What a user named: a kind with pods, and a name."""

    kind: Workload
    name: str


def named(text: str) -> NamedWorkload:
    """Read `NAME` or `KIND/NAME`; ValueError lists the kinds."""
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    plain = kind.lower().partition(".")[0]  # as in job.batch/x
    for workload in _KINDS:
        if plain in workload.names and name:
            return NamedWorkload(workload, name)
    kinds = ", ".join(workload.names[0] for workload in _KINDS)
    raise ValueError(f"{text!r} is not POD or KIND/NAME with one of the kinds {kinds}")


class _WorkloadMetadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _NamedObject(msgspec.Struct):
    metadata: _WorkloadMetadata


# Go writes an empty slice without omitempty as null: a kube-apiserver's empty
# PartialObjectMetadataList has `"items": null`, its empty PodList `"items": []`.
class _List(msgspec.Struct):
    items: list[_NamedObject] | None
    metadata: ListMetadata | None = None


class _WorkloadCondition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _WorkloadResources(msgspec.Struct):
    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None


class _WorkloadContainer(msgspec.Struct):
    resources: _WorkloadResources = msgspec.field(default_factory=_WorkloadResources)


class _WorkloadPodMetadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _WorkloadPodSpec(msgspec.Struct, rename="camel"):
    scheduler_name: str = ""
    node_name: str = ""
    containers: list[_WorkloadContainer] | None = None
    init_containers: list[_WorkloadContainer] | None = None


class _WorkloadPodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[_WorkloadCondition] | None = None


class ForeignPod(msgspec.Struct):
    """The fields of a pod that say which scheduler is responsible for it, and what it asks for."""

    metadata: _WorkloadPodMetadata = msgspec.field(default_factory=_WorkloadPodMetadata)
    spec: _WorkloadPodSpec = msgspec.field(default_factory=_WorkloadPodSpec)
    status: _WorkloadPodStatus = msgspec.field(default_factory=_WorkloadPodStatus)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of its labels and annotations."""
        meta = self.metadata
        return frozenset((*(meta.labels or ()), *(meta.annotations or ())))

    @property
    def resources(self) -> frozenset[str]:
        """The names of what its containers ask for."""
        every = (*(self.spec.containers or ()), *(self.spec.init_containers or ()))
        amounts = ((one.resources.limits, one.resources.requests) for one in every)
        return frozenset(name for pair in amounts for names in pair for name in names or ())

    @property
    def message(self) -> str:
        """Why it waits, as its scheduler reports; "" if it does not."""
        said = (one for one in self.status.conditions or () if one.type == "PodScheduled")
        return next((one.message for one in said if one.status == "False"), "")


class _ListedSharePodStatus(msgspec.Struct):
    conditions: list[_WorkloadCondition] | None = None


class _ListedSharePod(msgspec.Struct):
    status: _ListedSharePodStatus | None = None


def sharepod_message(body: bytes) -> str:
    """What keeps a SharePod from having a pod, as its controller reports; "" if it does not say.

    Raises UNDECODABLE.
    """
    status = decoded(body, _ListedSharePod).status
    said = (status.conditions if status else None) or ()
    return next((one.message for one in said if one.status == "False" and one.message), "")


def foreign_pod(body: bytes) -> ForeignPod:
    """Read a Pod; raises UNDECODABLE."""
    return decoded(body, ForeignPod)


def names_in_list(body: bytes) -> tuple[list[tuple[str, str]], str]:
    """The (namespace, name) of a list's items, and the continue token, "" at the end.

    Raises UNDECODABLE.
    """
    found = decoded(body, _List)
    names = [(one.metadata.namespace, one.metadata.name) for one in found.items or ()]
    return names, (found.metadata and found.metadata.next_page) or ""


def pod_selector(body: bytes) -> str:
    """The label selector of a workload's pods, as a query; ValueError without one."""
    selector = (decoded(body, dict).get("spec") or {}).get("selector") or {}
    if all(isinstance(value, str) for value in selector.values()):
        selector = {"matchLabels": selector}
    found = query(msgspec.convert(selector, SelectorFields))
    if not found:
        raise ValueError("it selects no pods")
    return found


# The pods in manifests as people write them: pods, and templates of whatever makes pods.
#
# Kubernetes' own kinds have their template at a known place. Any other kind is searched for parts
# that look as a pod template does, so that a JobSet, a PyTorchJob or a RayCluster needs no line
# here.


_TEMPLATE = ("spec", "template")
#: Where each kind has its template, by (apiVersion, kind in lower case).
_PLACES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("v1", "pod"): (),
    ("kubeshare.nthu/v1", "sharepod"): (),  # its metadata and spec are its pod's
    ("v1", "podtemplate"): ("template",),
    ("batch/v1", "cronjob"): ("spec", "jobTemplate", "spec", "template"),
    **{(kind.api.split("/", 2)[2], kind.names[0]): _TEMPLATE for kind in WORKLOADS},
}
#: Kinds without apiVersion, as hand-written fragments have none, are taken for these.
_BY_KIND = {kind: place for (_, kind), place in _PLACES.items()}
#: The deepest nesting of Lists, which people do not nest at all.
_MAX_LISTS = 8


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod, or the template of the pods that an object makes.

    `owner` is the object as `kind/name`; `path` leads from the object to the pod, "" for a pod.
    `pod` is what is there, of whatever type. `namespace` is the owner's, "" if it names none. Kinds
    that are not Kubernetes' own may have several templates. `copies` is the number of pods that the
    owner makes of it at once, 1 if it does not say.
    """

    owner: str
    path: str
    pod: object
    namespace: str = ""
    is_one_of_several: bool = False
    copies: int = 1


@dataclass(frozen=True, slots=True)
class NoTemplate:
    """An object in which no pod template was found; `is_known` if it is of a Kubernetes' kind."""

    owner: str
    is_known: bool = False


#: What is said of the answer about a pod that a template makes.
ONE_POD = "this is about one of its pods, as if there were no other"
#: The schedulerName that the API server gives to pods that name none.
_NONE_CHOSEN = ("", "default-scheduler")
#: The status of an answer about an object that is not valid.
_INVALID = 422
#: Beginnings and parts of the messages by which admission policies and webhooks refuse; others are
#: about what the template leaves to its owner (a volume), or about what is not there yet.
_ADMISSION_SAYS = ("ValidatingAdmissionPolicy", "admission webhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAnswer:
    """What an API server said to a dry run: the pod as it would be created, or why not.

    `refusal` is the sentence of an admission policy or webhook. `notes` are warnings, or why the
    API server did not say.
    """

    pod: bytes | None = None
    refusal: str = ""
    notes: tuple[str, ...] = ()


def pod_templates(document: object, lists: int = _MAX_LISTS) -> Iterator[PodTemplate | NoTemplate]:
    """The pods of one document, or that it makes none.

    Raises ValueError for no object.
    """
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ValueError("it is no Kubernetes object: it has no kind")
    kind = document["kind"]
    if kind.endswith("List") and isinstance(document.get("items"), list) and lists:
        for item in document["items"]:
            yield from pod_templates(item, lists - 1)
        return
    version = document.get("apiVersion")
    metadata = document.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    owner = f"{kind.lower()}/{given.get('name') or given.get('generateName') or ''}"
    namespace = given.get("namespace")
    namespace = namespace if isinstance(namespace, str) else ""
    place = _place(version, kind.lower())
    if place is not None:
        found: Any = document
        copies = 1
        for step in place:
            copies *= _copies(found, step)
            found = found.get(step) if isinstance(found, dict) else None
        yield PodTemplate(owner, ".".join(place), found, namespace, copies=copies)
        return
    searched = list(_templates("", document))
    for path, pod, copies in searched:
        yield PodTemplate(owner, path, pod, namespace, True, copies)
    if not searched:
        yield NoTemplate(owner, _is_of_kubernetes(version))


def _place(version: object, kind: str) -> tuple[str, ...] | None:
    if isinstance(version, str) and version:
        return _PLACES.get((version, kind))
    return _BY_KIND.get(kind)


def _is_of_kubernetes(version: object) -> bool:
    """Whether a group is of Kubernetes itself: it has no domain, or one of k8s.io.

    Groups of SIGs' projects end so too (`jobset.x-k8s.io`, `leaderworkerset.x-k8s.io`).
    """
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))


#: A LeaderWorkerSet's group of `size` pods, of which the leader may have a template of its own.
_LEADER, _WORKERS = "leaderTemplate", "workerTemplate"


def _copies(part: object, step: str) -> int:
    """By how much a part multiplies the pods of the template that is below its field `step`.

    Kinds of Kubernetes and of its relatives all call it `replicas` or `parallelism`. A suspended
    object counts as it will be once it is not.
    """
    if not isinstance(part, dict):
        return 1
    copies = _number(part.get("replicas"), 1)
    parallel = _number(part.get("parallelism"), 1)
    if step == _WORKERS:
        copies *= max(1, _number(part.get("size"), 1)) - (_LEADER in part)
    return copies * min(parallel, _number(part.get("completions"), parallel))


def _number(value: object, default: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return default


def _templates(path: str, part: object, copies: int = 1) -> Iterator[tuple[str, object, int]]:
    """The outermost parts that have a `spec` with `containers`, with the way to each.

    The third value is how many pods are made of it. The reader of manifests bounds the depth.
    """
    if isinstance(part, dict):
        spec = part.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield path, part, copies
            return
        for key, value in part.items():
            below = copies * _copies(part, str(key))
            yield from _templates(f"{path}.{key}" if path else str(key), value, below)
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from _templates(f"{path}[{index}]", value, copies)


# What the API server would make of pods: dry runs of their creation, which create nothing.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run


def dry_run(template: PodTemplate, namespace: str) -> tuple[str, dict[str, Any]] | None:
    """The path and the body of a dry run of the pod's creation, in this namespace.

    None for what is no pod at all, and for SharePods, whose pods a controller makes.
    """
    pod = dry_pod(template.pod)
    if pod is None or template.owner.startswith("sharepod/"):
        return None
    return f"{collection_path(CORE, 'pods', namespace)}?dryRun=All", pod


def dry_pod(pod: object) -> dict[str, Any] | None:
    """A pod that can be created without a name; None if that is no pod at all."""
    if not isinstance(pod, dict):
        return None
    given = pod.get("metadata")
    kept = ("labels", "annotations")
    metadata = given if isinstance(given, dict) else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # Not the pod's own name, which may be in use.
        "metadata": {
            "generateName": "kubeshare-check-",
            **{key: metadata[key] for key in kept if key in metadata},
        },
        "spec": pod.get("spec"),
    }


def dry_run_refused(
    status: int, said: str, template: PodTemplate, notes: tuple[str, ...] = ()
) -> AdmissionAnswer:
    """What an error means that answered the dry run of a pod; `said` is its message."""
    if any(text in said for text in _ADMISSION_SAYS):
        return AdmissionAnswer(refusal=said, notes=notes)
    # A template's owner adds something to it; a pod as it stands is whole.
    if status == _INVALID and template.owner.startswith("pod/"):
        # Without the beginning, which names the pod of the dry run.
        refusal = f"the API server refuses it: {said.partition(' is invalid: ')[2] or said}"
        return AdmissionAnswer(refusal=refusal, notes=notes)
    return AdmissionAnswer(notes=(f"the API server does not say what it would make of it: {said}",))


def pod_to_ask_about(
    template: PodTemplate, admission: AdmissionAnswer, scheduler: str
) -> dict[str, Any] | None:
    """The pod of a template with this schedulerName, as the API server would make it if it said.

    None if that is no pod at all.
    """
    made = admission.pod
    pod = dry_pod(template.pod) if made is None else msgspec.json.decode(made, type=dict[str, Any])
    if pod is None or not isinstance(pod.get("spec"), dict):
        return None
    metadata = {**pod["metadata"], "name": template.owner.partition("/")[2]}
    for key in ("generateName", "namespace", "managedFields"):
        metadata.pop(key, None)
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulerName": scheduler}}


def chosen_scheduler(template: PodTemplate, admission: AdmissionAnswer) -> str:
    """The schedulerName of the pod as it would be created; "" if it names none."""
    made = admission.pod
    pod: object = template.pod if made is None else msgspec.json.decode(made)
    spec = pod.get("spec") if isinstance(pod, dict) else None
    named = spec.get("schedulerName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) and named not in _NONE_CHOSEN else ""
