"""The keys `sharedgpu/*` that a pod may have, as labels and as annotations.

All checks of keys use this module: the scheduler, the webhook, the admission policy's CEL and
docs/labels.md (a test compares).
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from kubeshare_py.dialects import group_keys, results, sharedgpu, sharedgpu_models, standing
from kubeshare_py.domain.request import InvalidRequest

PREFIX = "sharedgpu/"

#: Label keys, in the order of docs/labels.md. Models may be in labels and in annotations.
LABELS = (
    sharedgpu.REQUEST,
    sharedgpu.LIMIT,
    sharedgpu.MEMORY,
    sharedgpu.MODEL,
    *sharedgpu_models.KEYS,
    sharedgpu.NUMA_BIND,
    sharedgpu.EXCLUSIVE,
    standing.PRIORITY,
    standing.ISOLATION,
    standing.GROUP,
    standing.GROUP_OTHER_NAME,
    standing.HEADCOUNT,
    standing.THRESHOLD,
    standing.MIN_AVAILABLE,
)
#: Annotation keys that users write.
ASKING_ANNOTATIONS = (*sharedgpu_models.KEYS, group_keys.WITHIN)
#: Annotation keys that only the scheduler writes. Copies of placed pods have them too. With those
#: for one container each: `results.OF_ONE_CONTAINER`.
RESULT_ANNOTATIONS = tuple(sorted(results.KEYS))

_LABELS = frozenset(LABELS)
_ANNOTATIONS = frozenset((*ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS))
#: Misspelt prefixes, KubeShare 1.0's among them. Keys with them count as ours if their name is
#: known; Kubernetes allows capitals in the prefix of an annotation, not of a label.
MISSPELT_PREFIX = r"(kubeshare|(sharedgpu|shared[._-]gpu|sharedgpus)([.][A-Za-z0-9.-]*)?)"
#: Both must be valid for RE2, which the API server's CEL uses; keys are lower-cased before.
_NAMES = "|".join(sorted({key.removeprefix(PREFIX) for key in _LABELS | _ANNOTATIONS}))
OURS = rf"^(sharedgpu/.*|{MISSPELT_PREFIX}/({_NAMES}))$"
_OURS = re.compile(OURS)
#: The common beginnings: nearly every other key is dismissed by them. Valid for RE2 too.
BEGINNING = "^(shared|kubeshare/)"
#: Labels that are results as annotations. Only users write these alone.
AMBIGUOUS = (sharedgpu.MEMORY, sharedgpu.MODEL)
#: With one of these annotations, the others are results of KubeShare or this scheduler that were
#: copied.
COPIED_WITH = (results.ALLOCATION, results.GPU_UUID)
#: difflib's similarity; `limit` and `gpu_limit` have 0.71, `mem` and `gpu_mem` 0.6.
_ALIKE = 0.6


def unknown_key(
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    of_dialects: Collection[str] = (),
) -> InvalidRequest | None:
    """The problem of the first unknown key of ours, in alphabetical order; None if there is none.

    Labels come before annotations. `of_dialects` are the annotations that the pod's dialects read.
    """
    wrong = [key for key in labels or () if key not in _LABELS and is_ours(key)]
    if wrong:
        return _of_label(min(wrong), of_dialects)
    if not annotations:
        return None
    wrong = [
        key
        for key in annotations
        if is_ours(key) and key not in of_dialects and not _is_annotation(key)
    ]
    wrong += _meant_as_labels(labels or {}, annotations)
    return _of_annotation(min(wrong)) if wrong else None


def is_ours(key: str) -> bool:
    """Whether a pod with this key means this scheduler, in whatever spelling."""
    if key[:1] not in "sSkK":
        return False  # nearly always
    return _OURS.match(key.lower()) is not None


def _meant_as_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[str]:
    meant = [key for key in AMBIGUOUS if key in annotations and key not in labels]
    return [] if meant and any(key in annotations for key in COPIED_WITH) else meant


def _is_annotation(key: str) -> bool:
    return key in _ANNOTATIONS or results.OF_ONE_CONTAINER.fullmatch(key) is not None


def _of_label(key: str, of_dialects: Collection[str]) -> InvalidRequest:
    if _is_annotation(key) or key in of_dialects:
        return InvalidRequest(field=key, rule="is an annotation, not a label")
    return _not_known("label", key, LABELS, ASKING_ANNOTATIONS, "an annotation")


def _of_annotation(key: str) -> InvalidRequest:
    if key in _LABELS:
        return InvalidRequest(field=key, rule="is a label, not an annotation")
    return _not_known("annotation", key, ASKING_ANNOTATIONS, LABELS, "a label")


def _not_known(
    kind: str, key: str, known: tuple[str, ...], others: tuple[str, ...], other_kind: str
) -> InvalidRequest:
    """`others` are keys of the other kind, which may be meant as well."""
    field = f"{kind} {key}"
    name = key.lower().partition("/")[2]
    names = {one.removeprefix(PREFIX): one for one in (*others, *known)}
    alike = get_close_matches(name, names, n=1, cutoff=_ALIKE)
    if not alike:
        return InvalidRequest(field=field, rule=f"is not known; {kind}s are {', '.join(known)}")
    meant = names[alike[0]]
    as_what = "" if meant in known else f", {other_kind}"
    return InvalidRequest(field=field, rule=f"is not known; did you mean {meant}{as_what}?")
