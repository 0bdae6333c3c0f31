"""Which keys `sharedgpu/*` a pod may carry, as a label and as an annotation.

Everything that asks whether a key is known reads it here: the scheduler, the webhook, the admission
policy's CEL and docs/labels.md (a test compares).
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from kubeshare_py.dialects import group_within, results, sharedgpu, sharedgpu_models
from kubeshare_py.domain.request import InvalidRequest

PREFIX = "sharedgpu/"

#: Label keys, as docs/labels.md orders them. Models may be said by labels and by annotations.
LABELS = (
    sharedgpu.REQUEST,
    sharedgpu.LIMIT,
    sharedgpu.MEMORY,
    sharedgpu.MODEL,
    *sharedgpu_models.KEYS,
    sharedgpu.NUMA_BIND,
    sharedgpu.PRIORITY,
    sharedgpu.ISOLATION,
    sharedgpu.GROUP,
    sharedgpu.GROUP_OTHER_NAME,
    sharedgpu.HEADCOUNT,
    sharedgpu.THRESHOLD,
    sharedgpu.MIN_AVAILABLE,
)
#: Annotation keys that users write.
ASKING_ANNOTATIONS = (*sharedgpu_models.KEYS, group_within.WITHIN)
#: Annotation keys of which only the scheduler writes the values. Copies of placed pods bring them
#: along. With those for one container each: `results.OF_ONE_CONTAINER`.
RESULT_ANNOTATIONS = tuple(sorted(results.KEYS))

_LABELS = frozenset(LABELS)
_ANNOTATIONS = frozenset((*ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS))
#: Prefixes that people write for ours, KubeShare 1.0's among them. Keys with them count as ours if
#: their name is known; Kubernetes takes capitals in the prefix of an annotation, not of a label.
MISSPELT_PREFIX = r"(kubeshare|(sharedgpu|shared[._-]gpu|sharedgpus)([.][A-Za-z0-9.-]*)?)"
#: Both are read by RE2 too, which the API server's CEL uses; keys are lower-cased before.
_NAMES = "|".join(sorted({key.removeprefix(PREFIX) for key in _LABELS | _ANNOTATIONS}))
OURS = rf"^(sharedgpu/.*|{MISSPELT_PREFIX}/({_NAMES}))$"
_OURS = re.compile(OURS)
#: What all of them begin with: nearly every other key is dismissed by it. RE2 reads it too.
BEGINNING = "^(shared|kubeshare/)"
#: Labels that are results as annotations. Nobody but users writes these alone.
AMBIGUOUS = (sharedgpu.MEMORY, sharedgpu.MODEL)
#: Annotations with one of which the others are results, of KubeShare or of us, that were copied.
COPIED_WITH = (results.ALLOCATION, results.GPU_UUID)
#: difflib's measure of likeness; `limit` and `gpu_limit` have 0.71, `mem` and `gpu_mem` 0.6.
_ALIKE = 0.6


def unknown_key(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> InvalidRequest | None:
    """What is wrong with the first key, in alphabetical order, that is ours and not known.

    Labels go before annotations.
    """
    wrong = [key for key in labels or () if key not in _LABELS and is_ours(key)]
    if wrong:
        return _of_label(min(wrong))
    if not annotations:
        return None
    wrong = [key for key in annotations if is_ours(key) and not _is_annotation(key)]
    wrong += _meant_as_labels(labels or {}, annotations)
    return _of_annotation(min(wrong)) if wrong else None


def is_ours(key: str) -> bool:
    """Whether a pod with this key means this scheduler, however it is spelt."""
    if key[:1] not in "sSkK":
        return False  # nearly always
    return _OURS.match(key.lower()) is not None


def _meant_as_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[str]:
    meant = [key for key in AMBIGUOUS if key in annotations and key not in labels]
    return [] if meant and any(key in annotations for key in COPIED_WITH) else meant


def _is_annotation(key: str) -> bool:
    return key in _ANNOTATIONS or results.OF_ONE_CONTAINER.fullmatch(key) is not None


def _of_label(key: str) -> InvalidRequest:
    if _is_annotation(key):
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
