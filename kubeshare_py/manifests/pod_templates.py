"""The pods in manifests as people write them: pods, and templates of whatever makes pods.

Kubernetes' own kinds have their template at a known place. Any other kind is searched for parts
that look as a pod template does, so that a JobSet, a PyTorchJob or a RayCluster needs no line here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeshare_py.manifests.workloads import WORKLOADS

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
    that are not Kubernetes' own may have several templates.
    """

    owner: str
    path: str
    pod: object
    namespace: str = ""
    is_one_of_several: bool = False


@dataclass(frozen=True, slots=True)
class NoTemplate:
    """An object in which no pod template was found; `is_known` if it is of a Kubernetes' kind."""

    owner: str
    is_known: bool = False


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
        for step in place:
            found = found.get(step) if isinstance(found, dict) else None
        yield PodTemplate(owner, ".".join(place), found, namespace)
        return
    searched = list(_templates("", document))
    yield from (PodTemplate(owner, path, pod, namespace, True) for path, pod in searched)
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


def _templates(path: str, part: object) -> Iterator[tuple[str, object]]:
    """The outermost parts that have a `spec` with `containers`, with the way to each.

    The reader of manifests bounds the depth.
    """
    if isinstance(part, dict):
        spec = part.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield path, part
            return
        for key, value in part.items():
            yield from _templates(f"{path}.{key}" if path else str(key), value)
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from _templates(f"{path}[{index}]", value)
