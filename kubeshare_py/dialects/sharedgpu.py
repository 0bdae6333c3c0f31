"""KubeShare 2.0's dialect: labels `sharedgpu/*` on the pod, and annotations on models.

Label meanings and the order of checks follow KubeShare 2.0 (pod labels, README and
pkg/scheduler/pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0). Deliberate differences: any
decimal is a number, so "0", "10" and "100" are accepted; a malformed gang is an error instead of no
gang; amounts are computed exactly; memory may have a unit; a request needs no limit beside it.
`sharedgpu/numa_bind` is new.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import floor

from kubeshare_py.dialects.sharedgpu_models import with_models
from kubeshare_py.domain.bounds import CLAIMED_CARDS, GROUP_MEMBERS, HELD_BYTES
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.quantity import whole
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim, GpuRequest, InvalidRequest

DIALECT = "sharedgpu"

LIMIT = "sharedgpu/gpu_limit"
REQUEST = "sharedgpu/gpu_request"
MEMORY = "sharedgpu/gpu_mem"
MODEL = "sharedgpu/gpu_model"
NUMA_BIND = "sharedgpu/numa_bind"
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
MAX_CARDS = CLAIMED_CARDS.most

# The texts for values that break a rule; the admission policy uses the same ones.
NUMBER_RULE = "must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0"
WHOLE_CARDS_RULE = "must be a whole number of cards when it is above 1"
MAX_RULE = f"must be at most {MAX_CARDS}"
MEMORY_RULE = "must be a whole number of bytes, such as 1073741824, or have a unit, such as 8Gi"
ALONE_RULE = f"alone asks for no card: add {REQUEST}, or {LIMIT} for a card without a share"
FLAG_RULE = 'must be "true" or "false"'
PRIORITY_RULE = f"must be an integer from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
TOO_MUCH_MEMORY_RULE = f"must be at most {HELD_BYTES.most} bytes a card"
MAX_MEMBERS_RULE = f"must be at most {GROUP_MEMBERS.most}"
HEADCOUNT_RULE = "must be an integer of at least 1"
THRESHOLD_RULE = "must be a decimal number above 0, such as 0.5"
#: Memory with a unit or an exponent, in Kubernetes' notation of quantities
#: (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/). Not accepted
#: are thousandths of a byte, because "512m" is meant as "512M", and fractions of a byte without a
#: unit. Valid for RE2 too.
MEMORY_QUANTITY = "[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,3})"
_MEMORY_QUANTITY = re.compile(MEMORY_QUANTITY)
#: Numbers are read exactly, never through floating point.
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?")
_SCIENTIFIC = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
INT64_MOST = 2**63 - 1
#: A label value has at most 63 characters (Kubernetes), so this many digits lose nothing.
_LONGEST = 63
_EXACT = Context(prec=2 * _LONGEST, rounding=ROUND_CEILING)
_FLAGS = (None, "", "true", "false")
# Each distinct text is parsed once; a cluster has few distinct requests and many pods.
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """The labels' meaning. No request and no problem: a pod that wants no GPU.

    `priority` and `group` were understood before the first problem.
    """

    request: GpuRequest | None = None
    problem: InvalidRequest | None = None
    priority: int = 0
    group: PodGroup | None = None


def read(labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> ParsedRequest:
    """Read a pod's labels; the first problem in KubeShare's order of checks is reported.

    Group names belong to the pod's namespace, which the value does not repeat. Of annotations, only
    those about models are read.
    """
    get = labels.get
    headcount, threshold = get(HEADCOUNT), get(THRESHOLD)
    group: PodGroup | InvalidRequest | None = None
    if headcount or threshold:
        group = _group(get(GROUP) or get(GROUP_OTHER_NAME), headcount, threshold)
    limit, request, memory, priority = get(LIMIT), get(REQUEST), get(MEMORY), get(PRIORITY)
    if isinstance(group, InvalidRequest):
        return ParsedRequest(problem=group)
    parsed = _asked(limit, request, memory, get(MODEL), get(NUMA_BIND), priority)
    asked: GpuRequest | InvalidRequest | None = parsed.request
    if parsed.request is not None:
        asked = with_models(parsed.request, labels, annotations, group is not None)
    if group is None and asked is parsed.request:
        return parsed  # nearly always
    problem = asked if isinstance(asked, InvalidRequest) else parsed.problem
    asked = None if isinstance(asked, InvalidRequest) else asked
    return ParsedRequest(request=asked, problem=problem, priority=parsed.priority, group=group)


@remembered(_REMEMBERED)
def _asked(
    limit: str | None,
    request: str | None,
    memory: str | None,
    model: str | None,
    numa_bind: str | None,
    priority: str | None,
) -> ParsedRequest:
    """The request without the group."""
    rank = _priority(priority)
    if isinstance(rank, InvalidRequest):
        return ParsedRequest(problem=rank)
    if limit is None and request is None and memory is None:
        return ParsedRequest(priority=rank)
    asked = _request(limit, request, memory, model, numa_bind, rank > 0)
    if isinstance(asked, InvalidRequest):
        return ParsedRequest(problem=asked, priority=rank)
    return ParsedRequest(request=asked, priority=rank)


def _request(
    limit_text: str | None,
    share_text: str | None,
    memory_text: str | None,
    model: str | None,
    numa_bind: str | None,
    guarantee: bool,
) -> GpuRequest | InvalidRequest | None:
    """The request; None for a limit of 0, by which a pod declares that it wants no GPU."""
    if limit_text is None and share_text is not None:
        limit = _implied_limit(share_text)
    else:
        limit = _limit(limit_text)
    if isinstance(limit, InvalidRequest):
        return limit
    share = _share(share_text, limit)
    if isinstance(share, InvalidRequest):
        return share
    if not limit:
        return None
    shared = share <= 1
    count = 1 if shared else int(share)
    memory = _memory(memory_text, count)
    if isinstance(memory, InvalidRequest):
        return memory
    if numa_bind not in _FLAGS:
        return _invalid(NUMA_BIND, numa_bind, FLAG_RULE)
    limit_milli, limit_rounded = _thousandths(limit)
    milli, share_rounded = _thousandths(share)
    return GpuRequest.of_pod(
        _claim(
            count,
            min(milli, WHOLE_MILLI),
            memory,
            model,
            near=numa_bind == "true",
        ),
        dialect=DIALECT,
        limit_milli=limit_milli,
        guarantee=guarantee,
        needs_port=shared,
        rounded=((LIMIT,) if limit_rounded else ()) + ((REQUEST,) if share_rounded else ()),
    )


def _claim(count: int, milli: int, total_bytes: int, model: str | None, *, near: bool) -> GpuClaim:
    """`total_bytes` is for all cards; 0 leaves it to the share, or to the whole cards."""
    return GpuClaim(
        count=count,
        milli=milli,
        memory_bytes=-(-total_bytes // count) or None,
        models=(model,) if model else (),
        exclusive=count > 1,
        # A single card is always near one: its pods need no shape of their own.
        one_numa_node=near and count > 1,
    )


def _limit(text: str | None) -> Decimal | InvalidRequest:
    """The limit as written: a whole number if it is above 1."""
    if text is None:
        return InvalidRequest(field=MEMORY, rule=ALONE_RULE)
    limit = _plain_decimal(text)
    if limit is None:
        return _invalid(LIMIT, text, NUMBER_RULE)
    if limit > 1 and limit != int(limit):
        return _invalid(LIMIT, text, WHOLE_CARDS_RULE)
    if limit > MAX_CARDS:
        return _invalid(LIMIT, text, MAX_RULE)
    return limit


def _implied_limit(request: str) -> Decimal | InvalidRequest:
    """The limit of a pod with only a request: one card for a share, else the requested cards."""
    share = _plain_decimal(request)
    if share is None:
        return _invalid(REQUEST, request, NUMBER_RULE)
    if share <= 1:
        return Decimal(1)
    if share != int(share):
        return _invalid(REQUEST, request, WHOLE_CARDS_RULE)
    if share > MAX_CARDS:
        return _invalid(REQUEST, request, MAX_RULE)
    return share


def _share(text: str | None, limit: Decimal) -> Decimal | InvalidRequest:
    """The request as written: not above the limit, and equal to it if that is above 1."""
    if text is None:
        return Decimal(0)
    share = _plain_decimal(text)
    if share is None:
        return _invalid(REQUEST, text, NUMBER_RULE)
    if share > limit:
        return _invalid(REQUEST, text, f"must not be above {LIMIT}, which is {limit:f}")
    if limit > 1 and share != limit:
        return _invalid(REQUEST, text, f"must equal {LIMIT}, which is {limit:f}, above 1")
    return share


def _memory(text: str | None, count: int) -> int | InvalidRequest:
    """The bytes on all `count` cards, rounded up; 0 if nothing is stated."""
    if text is None:
        return 0
    is_quantity = len(text) <= _LONGEST and _MEMORY_QUANTITY.fullmatch(text)
    memory = whole(text) if is_quantity else _integer(text)
    if memory is None or memory < 0:
        return _invalid(MEMORY, text, MEMORY_RULE)
    if memory > count * HELD_BYTES.most:
        return _invalid(MEMORY, text, TOO_MUCH_MEMORY_RULE)
    return memory


def _priority(text: str | None) -> int | InvalidRequest:
    priority = _integer(text) if text else 0
    if priority is None or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        return _invalid(PRIORITY, text, PRIORITY_RULE)
    return priority


@remembered(_REMEMBERED)
def _group(
    name: str | None, headcount_text: str | None, threshold_text: str | None
) -> PodGroup | InvalidRequest | None:
    """The gang; None if a part is missing or empty. A part that is there must be well-formed."""
    headcount = _integer(headcount_text) if headcount_text else None
    if headcount_text and (headcount is None or headcount < 1):
        return _invalid(HEADCOUNT, headcount_text, HEADCOUNT_RULE)
    if headcount is not None and headcount > GROUP_MEMBERS.most:
        return _invalid(HEADCOUNT, headcount_text, MAX_MEMBERS_RULE)
    threshold = _fraction(threshold_text) if threshold_text else None
    if threshold_text and (threshold is None or threshold <= 0):
        return _invalid(THRESHOLD, threshold_text, THRESHOLD_RULE)
    if not name or headcount is None or threshold is None:
        return None
    least = floor(threshold * headcount + Fraction(1, 2))
    if least > headcount:
        rule = f"asks for more pods than the group's {headcount}, which can never be met"
        return _invalid(THRESHOLD, threshold_text, rule)
    return PodGroup(name=name, headcount=headcount, min_available=least)


def _invalid(label: str, value: str | None, rule: str) -> InvalidRequest:
    return InvalidRequest(field=label, value=value or "", rule=rule)


def _plain_decimal(text: str) -> Decimal | None:
    """Parse digits with an optional fraction ("0", "00.5", "10"); None for anything else.

    Signs, exponents and values longer than a label are not accepted.
    """
    if len(text) > _LONGEST or not _PLAIN.fullmatch(text):
        return None
    return Decimal(text)


def _fraction(text: str) -> Fraction | None:
    """Parse a finite decimal, with an optional sign and exponent (three digits at most)."""
    if len(text) > _LONGEST or not _SCIENTIFIC.fullmatch(text):
        return None
    return Fraction(text)


def _integer(text: str) -> int | None:
    """Parse a base-10 integer of 64 bits, as Go's Atoi does; None for anything else."""
    if len(text) > _LONGEST or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -INT64_MOST - 1 <= value <= INT64_MOST else None


def _thousandths(value: Decimal) -> tuple[int, bool]:
    """A decimal of at most 63 digits in thousandths, rounded up, and whether it was inexact."""
    exact = _EXACT.scaleb(value, 3)
    whole = exact.to_integral_value(context=_EXACT)
    return int(whole), whole != exact
