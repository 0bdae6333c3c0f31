"""Pasted manifests: which pods are in them, and what the server tells the page of each.

As `kubectl kubeshare check --now` asks: what the API server would make of each pod (a dry run of
its creation), then what would become of that pod now.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml_documents
from kubeshare_py.domain.printable import listed
from kubeshare_py.manifests.workloads import NoTemplate, PodTemplate, pod_templates
from kubeshare_py.views.view import ProspectView

#: The largest text, and the most pods of one that are asked about.
MAX_BYTES, MAX_PODS = 256 * 1024, 20
SOURCE = "the pasted text"


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
        documents = [one for one in read_yaml_documents(text, SOURCE) if one is not None]
        found = [one for document in documents for one in pod_templates(document)]
    except DocumentProblem as problem:
        raise Unreadable(str(problem)) from problem
    except ValueError as error:
        raise Unreadable(f"{SOURCE}: {error}") from error
    templates = tuple(one for one in found if isinstance(one, PodTemplate))
    if len(templates) > MAX_PODS:
        raise Unreadable(f"{SOURCE} has {len(templates)} pods: at most {MAX_PODS} are asked about")
    return Pasted(templates, tuple(one.owner for one in found if isinstance(one, NoTemplate)))


def not_asked(scheduler: str, known: Sequence[str]) -> str:
    """Why a pod of this scheduler is not asked about, "" if it is."""
    if scheduler in known:
        return ""
    names = listed(sorted(known))
    if not scheduler:
        return f"it names no scheduler, and kube-scheduler decides: a schedulerName here is {names}"
    return f"{scheduler} decides, and is not asked: a schedulerName here is {names}"
