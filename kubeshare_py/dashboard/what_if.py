"""Pasted manifests: the questions to the API server and the scheduler, and what they answered.

As `kubectl kubeshare check --now` asks: what the API server would make of each pod (a dry run of
its creation), then what would become of that pod now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml_documents
from kubeshare_py.domain.printable import listed
from kubeshare_py.manifests.api_paths import CORE, collection_path
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import API_VERSION, REVIEW, REVIEWS, ROOT, SCHEDULERS
from kubeshare_py.manifests.workloads import (
    AdmissionAnswer,
    NoTemplate,
    PodTemplate,
    dry_pod,
    pod_templates,
    pod_to_ask_about,
)
from kubeshare_py.views.view import ProspectView

#: The largest text, and the most pods of one that are asked about.
MAX_BYTES, MAX_PODS = 256 * 1024, 20
#: The schedulerName that the API server gives to pods that name none.
_DEFAULT = ("", "default-scheduler")

SOURCE = "the pasted text"
#: What is said of a pod that a template makes.
ONE_POD = ("this is about one of its pods, as if there were no other",)


class Unreadable(Exception):
    """The text is no manifest; the message says where."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """The pods of a text, and the objects without any."""

    templates: tuple[PodTemplate, ...]
    skipped: tuple[str, ...]


class WhatIfAnswer(msgspec.Struct, frozen=True):
    """What would become of one pod. `prospect` is None if that was not asked: `message` says why.

    `notes` are sentences about what the answer leaves out.
    """

    object: str
    namespace: str
    scheduler: str = ""
    message: str = ""
    refused: str = ""
    notes: tuple[str, ...] = ()
    prospect: ProspectView | None = None


def pasted(text: bytes) -> Pasted:
    """The pods of a text. Raises Unreadable."""
    try:
        documents = read_yaml_documents(text, SOURCE)
        found = [one for document in documents if document is not None for one in _of(document)]
    except DocumentProblem as problem:
        raise Unreadable(str(problem)) from problem
    except ValueError as error:
        raise Unreadable(f"{SOURCE}: {error}") from error
    templates = tuple(one for one in found if isinstance(one, PodTemplate))
    if len(templates) > MAX_PODS:
        raise Unreadable(f"{SOURCE} has {len(templates)} pods: at most {MAX_PODS} are asked about")
    return Pasted(templates, tuple(one.owner for one in found if isinstance(one, NoTemplate)))


def _of(document: object) -> Iterator[PodTemplate | NoTemplate]:
    yield from pod_templates(document)


def schedulers_path(namespace: str) -> str:
    """Where the scheduler's profiles are listed."""
    return collection_path(ROOT, SCHEDULERS, namespace)


def dry_run(template: PodTemplate, namespace: str) -> tuple[str, dict[str, Any]] | None:
    """The path and the body of a dry run of the pod's creation; None if it is no pod at all."""
    pod = dry_pod(template.pod)
    if pod is None:
        return None
    return f"{collection_path(CORE, 'pods', namespace)}?dryRun=All", pod


def chosen_scheduler(admission: AdmissionAnswer, template: PodTemplate) -> str:
    """The schedulerName of the pod as it would be created; "" if it names none."""
    pod: object = template.pod if admission.pod is None else msgspec.json.decode(admission.pod)
    spec = pod.get("spec") if isinstance(pod, dict) else None
    named = spec.get("schedulerName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) and named not in _DEFAULT else ""


def review(
    template: PodTemplate, admission: AdmissionAnswer, scheduler: str, namespace: str
) -> tuple[str, dict[str, Any]] | None:
    """The path and the body of the question to the scheduler; None if there is no pod to ask of."""
    pod = pod_to_ask_about(template, admission, scheduler)
    if pod is None:
        return None
    body = {"kind": REVIEW, "apiVersion": API_VERSION, "spec": {"pod": pod}}
    return collection_path(ROOT, REVIEWS, namespace), body


def not_asked(scheduler: str, known: Sequence[str]) -> str:
    """Why a pod of this scheduler is not asked about, "" if it is."""
    if scheduler in known:
        return ""
    names = listed(sorted(known))
    if not scheduler:
        return f"it names no scheduler, and kube-scheduler decides: a schedulerName here is {names}"
    return f"{scheduler} decides, and is not asked: a schedulerName here is {names}"


class _Named(msgspec.Struct):
    name: str = ""


class _Scheduler(msgspec.Struct):
    metadata: _Named


class _Schedulers(msgspec.Struct):
    items: tuple[_Scheduler, ...]


class _Answered(msgspec.Struct):
    status: ProspectView


def scheduler_names(body: bytes) -> tuple[str, ...] | str:
    """The schedulerNames of a list of profiles; why there are none, as a text."""
    try:
        found = msgspec.json.decode(body, type=_Schedulers)
    except UNDECODABLE as error:
        return f"the scheduler does not answer as one of this version does: {error}"
    return tuple(one.metadata.name for one in found.items)


def prospect(body: bytes) -> ProspectView | str:
    """What would become of the pod; why that is not known, as a text."""
    try:
        return msgspec.json.decode(body, type=_Answered).status
    except UNDECODABLE as error:
        return f"the scheduler does not answer as one of this version does: {error}"
