"""The pods in manifests as people write them: pods, and templates of the kinds that make pods.

The kinds are those of `workloads`, and CronJobs, PodTemplates, SharePods and Lists.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeshare_py.manifests.workloads import WORKLOADS

_TEMPLATE = ("spec", "template")
#: Where each kind has its template, by the kind in lower case.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "pod": (),
    "sharepod": (),  # KubeShare 1.0's: its metadata and spec are its pod's
    "podtemplate": ("template",),
    "cronjob": ("spec", "jobTemplate", "spec", "template"),
    **{kind.names[0]: _TEMPLATE for kind in WORKLOADS},
}
#: The deepest nesting of Lists, which people do not nest at all.
_MAX_LISTS = 8


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod, or the template of the pods that an object makes.

    `owner` is the object as `kind/name`; `path` leads from the object to the pod, "" for a pod.
    `pod` is what is there, of whatever type.
    """

    owner: str
    path: str
    pod: object


def pod_templates(document: object, lists: int = _MAX_LISTS) -> Iterator[PodTemplate]:
    """The pods of one document; nothing for other kinds. Raises ValueError for no object."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ValueError("it is no Kubernetes object: it has no kind")
    kind = document["kind"]
    if kind.endswith("List") and isinstance(document.get("items"), list) and lists:
        for item in document["items"]:
            yield from pod_templates(item, lists - 1)
        return
    place = _PLACES.get(kind.lower())
    if place is None:
        return
    found: Any = document
    for step in place:
        found = found.get(step) if isinstance(found, dict) else None
    yield PodTemplate(f"{kind.lower()}/{_name(document)}", ".".join(place), found)


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    return str(given.get("name") or given.get("generateName") or "")
