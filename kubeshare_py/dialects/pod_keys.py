"""The keys `sharedgpu/*` that a pod may have, and the meaning of those that all dialects share.

Shared by all dialects are priority, gangs, PodGroups and the topology of a group. What the others
mean is in `sharedgpu`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from math import floor

import msgspec

from kubeshare_py.dialects import results, sharedgpu
from kubeshare_py.dialects.label_numbers import fraction, integer
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.quantity import GROUP_MEMBERS
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest

# Labels and annotations about groups that every dialect shares.
#
# A pod may name a PodGroup object, by a label of the coscheduling plugin or in its spec, and an
# annotation on members and on PodGroup objects names the node label of which all nodes of a group
# must share a value.
#
# Labels: https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/pkg/coscheduling Field:
# `spec.schedulingGroup.podGroupName`, alpha in Kubernetes 1.36.


#: The label of the coscheduling plugin, and that of its releases before 0.23.
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
OLD_POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
POD_GROUP_FIELD = "spec.schedulingGroup"

#: On members, and on PodGroup objects.
WITHIN = "sharedgpu/group_within"

#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
WITHIN_RULE = "must be the name of a node label, such as topology.kubernetes.io/zone"
_LABEL_KEY = re.compile(LABEL_KEY)
#: The most characters of a bad value that are shown.
SHOWN = 60


def membership(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    in_spec: str,
    group: PodGroup | None,
) -> tuple[PodGroup | None, GroupReference | InvalidRequest | None]:
    """The group with its topology key, and the PodGroup that the pod names or a problem of groups.

    `in_spec` is the PodGroup in the pod's spec, "" if there is none; `group` is the group by the
    labels of the pod's dialect.
    """
    if group is not None and annotations.get(WITHIN):
        problem = within_problem(annotations)
        if problem is not None:
            return group, problem
        group = replace(group, within=annotations[WITHIN])
    return group, _reference(labels, in_spec, group)


def within_problem(annotations: Mapping[str, str]) -> InvalidRequest | None:
    """What is wrong with the annotation `group_within`; None if it is not there."""
    text = annotations.get(WITHIN)
    if not text or _LABEL_KEY.fullmatch(text):
        return None
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return InvalidRequest(field=WITHIN, value=shown, rule=WITHIN_RULE)


def _reference(
    labels: Mapping[str, str], in_spec: str, group: PodGroup | None
) -> GroupReference | InvalidRequest | None:
    """The PodGroup that a pod names; a problem if the pod belongs to several groups."""
    label = labels.get(POD_GROUP_LABEL) or labels.get(OLD_POD_GROUP_LABEL)
    if not label and not in_spec:
        return None  # nearly always
    by_dialect = group.name if group is not None else ""
    if label and (in_spec or by_dialect):
        given = POD_GROUP_LABEL if labels.get(POD_GROUP_LABEL) else OLD_POD_GROUP_LABEL
        return _second(given, label, in_spec or by_dialect)
    if in_spec and by_dialect:
        return _second(POD_GROUP_FIELD, in_spec, by_dialect)
    if label:
        return GroupReference(GroupApi.COSCHEDULING, label)
    return GroupReference(GroupApi.KUBERNETES, in_spec)


def _second(field: str, name: str, other: str) -> InvalidRequest:
    rule = f"a pod can only be in one group, and this one is in group {other} as well"
    return InvalidRequest(field=field, value=name, rule=rule)


# Labels of the scheduler itself, which mean the same in every dialect: priority and gang.
#
# Meanings follow KubeShare 2.0 (pod labels, README and pkg/scheduler/pod.go of
# github.com/NTHU-LSALab/KubeShare, release-2.0). Deliberate difference: a malformed gang is an
# error instead of no gang.


PRIORITY = "sharedgpu/priority"
#: Chooses an isolation back-end among those that the profile allows.
ISOLATION = "sharedgpu/isolation"
GROUP = "sharedgpu/group_name"
#: The group's label in KubeShare's README, but not in its code.
GROUP_OTHER_NAME = "sharedgpu/pod_group_name"
HEADCOUNT = "sharedgpu/group_headcount"
THRESHOLD = "sharedgpu/group_threshold"
#: From KubeShare 2.0's older manifests: neither its scheduler nor this one reads it.
MIN_AVAILABLE = "sharedgpu/min_available"

LOWEST_PRIORITY, HIGHEST_PRIORITY = -1, 100

# The texts for values that break a rule; the admission policy uses the same ones.
PRIORITY_RULE = f"must be an integer from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
MAX_MEMBERS_RULE = f"must be at most {GROUP_MEMBERS.most}"
HEADCOUNT_RULE = "must be an integer of at least 1"
THRESHOLD_RULE = "must be a decimal number above 0, such as 0.5"
#: A pod that names a group and does not describe it.
NO_GROUP_ADVICE = (
    f"{GROUP} makes no group without {HEADCOUNT} and {THRESHOLD}: the pod starts alone"
)
# Each distinct text is parsed once; a cluster has few distinct values and many pods.
_REMEMBERED = 4096


class PriorityAndGang(msgspec.Struct, frozen=True, gc=False):
    """A pod's priority among others and its gang; `problem` is the first one, None if none.

    `group` and `priority` are what was understood before the problem.
    """

    priority: int = 0
    group: PodGroup | None = None
    problem: InvalidRequest | None = None


_ORDINARY = PriorityAndGang()


def priority_and_gang(labels: Mapping[str, str]) -> PriorityAndGang:
    """Read both from labels. Group names belong to the pod's namespace, which is not repeated."""
    get = labels.get
    priority, headcount, threshold = get(PRIORITY), get(HEADCOUNT), get(THRESHOLD)
    if not priority and not headcount and not threshold:
        return _ORDINARY  # nearly always
    name = get(GROUP) or get(GROUP_OTHER_NAME)
    return _priority_and_gang(priority or "", name or "", headcount or "", threshold or "")


@remembered(_REMEMBERED)
def _priority_and_gang(priority: str, name: str, headcount: str, threshold: str) -> PriorityAndGang:
    group = _group(name, headcount, threshold)
    if isinstance(group, InvalidRequest):
        return PriorityAndGang(problem=group)
    rank = _priority(priority)
    if isinstance(rank, InvalidRequest):
        return PriorityAndGang(group=group, problem=rank)
    return PriorityAndGang(rank, group)


def group_advice(labels: Mapping[str, str]) -> str:
    """A warning about a group that is hardly meant, as admission gives it too; or ""."""
    get = labels.get
    if not (get(GROUP) or get(GROUP_OTHER_NAME)) or (get(HEADCOUNT) and get(THRESHOLD)):
        return ""
    return NO_GROUP_ADVICE


def _priority(text: str) -> int | InvalidRequest:
    priority = integer(text) if text else 0
    if priority is None or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        return InvalidRequest(field=PRIORITY, value=text, rule=PRIORITY_RULE)
    return priority


def _group(name: str, headcount_text: str, threshold_text: str) -> PodGroup | InvalidRequest | None:
    """The gang; None if a part is missing or empty. A part that is there must be well-formed."""
    headcount = integer(headcount_text) if headcount_text else None
    if headcount_text and (headcount is None or headcount < 1):
        return _invalid(HEADCOUNT, headcount_text, HEADCOUNT_RULE)
    if headcount is not None and headcount > GROUP_MEMBERS.most:
        return _invalid(HEADCOUNT, headcount_text, MAX_MEMBERS_RULE)
    threshold = fraction(threshold_text) if threshold_text else None
    if threshold_text and (threshold is None or threshold <= 0):
        return _invalid(THRESHOLD, threshold_text, THRESHOLD_RULE)
    if not name or headcount is None or threshold is None:
        return None
    least = floor(threshold * headcount + Fraction(1, 2))
    if least > headcount:
        rule = f"asks for more pods than the group's {headcount}, which can never be met"
        return _invalid(THRESHOLD, threshold_text, rule)
    return PodGroup(name=name, headcount=headcount, min_available=least)


def _invalid(label: str, value: str, rule: str) -> InvalidRequest:
    return InvalidRequest(field=label, value=value, rule=rule)


# The keys `sharedgpu/*` that a pod may have, as labels and as annotations.
#
# All checks of keys use this module: the scheduler, the webhook, the admission policy's CEL and
# docs/labels.md (a test compares).


PREFIX = "sharedgpu/"

#: Label keys, in the order of docs/labels.md. Models may be in labels and in annotations.
LABELS = (
    sharedgpu.REQUEST,
    sharedgpu.LIMIT,
    sharedgpu.MEMORY,
    sharedgpu.MODEL,
    *sharedgpu.MODEL_KEYS,
    sharedgpu.NUMA_BIND,
    sharedgpu.EXCLUSIVE,
    PRIORITY,
    ISOLATION,
    GROUP,
    GROUP_OTHER_NAME,
    HEADCOUNT,
    THRESHOLD,
    MIN_AVAILABLE,
)
#: Annotation keys that users write.
ASKING_ANNOTATIONS = (*sharedgpu.MODEL_KEYS, WITHIN)
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
