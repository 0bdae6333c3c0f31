"""Labels of the scheduler itself, which mean the same in every dialect: priority and gang.

Meanings follow KubeShare 2.0 (pod labels, README and pkg/scheduler/pod.go of
github.com/NTHU-LSALab/KubeShare, release-2.0). Deliberate difference: a malformed gang is an error
instead of no gang.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import floor

import msgspec

from kubeshare_py.dialects.label_numbers import fraction, integer
from kubeshare_py.domain.bounds import GROUP_MEMBERS
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest

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


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A pod's priority among others and its gang; `problem` is the first one, None if none.

    `group` and `priority` are what was understood before the problem.
    """

    priority: int = 0
    group: PodGroup | None = None
    problem: InvalidRequest | None = None


_ORDINARY = Standing()


def standing(labels: Mapping[str, str]) -> Standing:
    """Read a pod's standing. Group names belong to the pod's namespace, which is not repeated."""
    get = labels.get
    priority, headcount, threshold = get(PRIORITY), get(HEADCOUNT), get(THRESHOLD)
    if not priority and not headcount and not threshold:
        return _ORDINARY  # nearly always
    name = get(GROUP) or get(GROUP_OTHER_NAME)
    return _standing(priority or "", name or "", headcount or "", threshold or "")


@remembered(_REMEMBERED)
def _standing(priority: str, name: str, headcount: str, threshold: str) -> Standing:
    group = _group(name, headcount, threshold)
    if isinstance(group, InvalidRequest):
        return Standing(problem=group)
    rank = _priority(priority)
    if isinstance(rank, InvalidRequest):
        return Standing(group=group, problem=rank)
    return Standing(rank, group)


def advice(labels: Mapping[str, str]) -> str:
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
