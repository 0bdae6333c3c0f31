"""KubeShare 2.0's dialect: labels `sharedgpu/*` on the pod, and annotations on models.

Label meanings and the order of checks follow KubeShare 2.0 (pod labels, README and
pkg/scheduler/pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0). Deliberate differences: any
decimal is a number, so "0", "10" and "100" are accepted; amounts are computed exactly; memory may
have a unit; a request needs no limit beside it. `sharedgpu/numa_bind` and `sharedgpu/gpu_exclusive`
are new. Priority and gangs, which are the same in every dialect, are in `standing`.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

from kubeshare_py.dialects.label_numbers import LONGEST, integer, plain_decimal, thousandths
from kubeshare_py.dialects.sharedgpu_models import with_models
from kubeshare_py.domain.bounds import CLAIMED_CARDS, HELD_BYTES
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.quantity import whole
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim, GpuRequest, InvalidRequest

DIALECT = "sharedgpu"

LIMIT = "sharedgpu/gpu_limit"
REQUEST = "sharedgpu/gpu_request"
MEMORY = "sharedgpu/gpu_mem"
MODEL = "sharedgpu/gpu_model"
NUMA_BIND = "sharedgpu/numa_bind"
#: One whole card for one pod alone, which KubeShare's labels cannot say.
EXCLUSIVE = "sharedgpu/gpu_exclusive"

MAX_CARDS = CLAIMED_CARDS.most

# The texts for values that break a rule; the admission policy uses the same ones.
NUMBER_RULE = "must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0"
WHOLE_CARDS_RULE = "must be a whole number of cards when it is above 1"
MAX_RULE = f"must be at most {MAX_CARDS}"
MEMORY_RULE = "must be a whole number of bytes, such as 1073741824, or have a unit, such as 8Gi"
ALONE_RULE = f"alone asks for no card: add {REQUEST}, or {LIMIT} for a card without a share"
NOT_WHOLE_RULE = f"is for whole cards, so {REQUEST} and {LIMIT} must be whole numbers above 0"
#: Numbers of whole cards, as written; also for RE2, which the API server's CEL uses.
WHOLE_NUMBER = "0*[1-9][0-9]*([.]0+)?"
FLAG_RULE = 'must be "true" or "false"'
TOO_MUCH_MEMORY_RULE = f"must be at most {HELD_BYTES.most} bytes a card"
#: Memory with a unit or an exponent, in Kubernetes' notation of quantities
#: (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/). Not accepted
#: are thousandths of a byte, because "512m" is meant as "512M", and fractions of a byte without a
#: unit. Valid for RE2 too.
MEMORY_QUANTITY = "[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,3})"
#: So few bytes that a unit was forgotten; valid for RE2 too.
FEW_BYTES = "0*[1-9][0-9]{0,5}"
FEW_BYTES_ADVICE = "bytes; units are written behind the number, as in 8Gi"
_MEMORY_QUANTITY = re.compile(MEMORY_QUANTITY)
_FEW_BYTES = re.compile(FEW_BYTES)
_WHOLE_NUMBER = re.compile(WHOLE_NUMBER)
_FLAGS = (None, "", "true", "false")
# Each distinct text is parsed once; a cluster has few distinct requests and many pods.
_REMEMBERED = 4096


def advice(labels: Mapping[str, str]) -> str:
    """A warning about a valid amount that is hardly meant, as admission gives it too; or ""."""
    text = labels.get(MEMORY, "")
    return f"{MEMORY} is {int(text)} {FEW_BYTES_ADVICE}" if _FEW_BYTES.fullmatch(text) else ""


def read(
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    guarantee: bool = False,
    grouped: bool = False,
) -> GpuRequest | InvalidRequest | None:
    """The pod's request, or the first problem in KubeShare's order of checks; None: no GPU.

    `guarantee` and `grouped` are of the pod's standing. Of annotations, only those about models are
    read.
    """
    get = labels.get
    limit, request, memory, alone = get(LIMIT), get(REQUEST), get(MEMORY), get(EXCLUSIVE)
    is_alone = alone == "true"
    if alone:
        problem = _alone_problem(limit, request, alone)
        if problem is not None:
            return problem
        if is_alone and request is None:
            request = limit or "1"
    if limit is None and request is None and memory is None:
        return None
    asked = _request(limit, request, memory, get(MODEL), get(NUMA_BIND), guarantee, is_alone)
    if not isinstance(asked, GpuRequest):
        return asked
    return with_models(asked, labels, annotations, grouped)


@remembered(_REMEMBERED)
def _request(
    limit_text: str | None,
    share_text: str | None,
    memory_text: str | None,
    model: str | None,
    numa_bind: str | None,
    guarantee: bool,
    is_alone: bool,
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
    shared = share <= 1 and not is_alone
    count = max(1, int(share)) if not shared else 1
    memory = _memory(memory_text, count)
    if isinstance(memory, InvalidRequest):
        return memory
    if numa_bind not in _FLAGS:
        return _invalid(NUMA_BIND, numa_bind, FLAG_RULE)
    limit_milli, limit_rounded = thousandths(limit)
    milli, share_rounded = thousandths(share)
    return GpuRequest.of_pod(
        _claim(
            count,
            min(milli, WHOLE_MILLI),
            memory,
            model,
            exclusive=not shared,
            near=numa_bind == "true",
        ),
        dialect=DIALECT,
        limit_milli=limit_milli,
        guarantee=guarantee,
        needs_port=shared,
        rounded=((LIMIT,) if limit_rounded else ()) + ((REQUEST,) if share_rounded else ()),
    )


def _alone_problem(limit: str | None, request: str | None, alone: str) -> InvalidRequest | None:
    """The problem of a pod that says whether it wants its cards alone."""
    if alone not in _FLAGS:
        return _invalid(EXCLUSIVE, alone, FLAG_RULE)
    given = (limit, request) if alone == "true" else ()
    for text in given:
        if text is not None and not (len(text) <= LONGEST and _WHOLE_NUMBER.fullmatch(text)):
            return _invalid(EXCLUSIVE, alone, NOT_WHOLE_RULE)
    return None


def _claim(
    count: int,
    milli: int,
    total_bytes: int,
    model: str | None,
    *,
    exclusive: bool,
    near: bool,
) -> GpuClaim:
    """`total_bytes` is for all cards; 0 leaves it to the share, or to the whole cards."""
    return GpuClaim(
        count=count,
        milli=milli,
        memory_bytes=-(-total_bytes // count) or None,
        models=(model,) if model else (),
        exclusive=exclusive,
        # A single card is always near one: its pods need no shape of their own.
        one_numa_node=near and count > 1,
    )


def _limit(text: str | None) -> Decimal | InvalidRequest:
    """The limit as written: a whole number if it is above 1."""
    if text is None:
        return InvalidRequest(field=MEMORY, rule=ALONE_RULE)
    limit = plain_decimal(text)
    if limit is None:
        return _invalid(LIMIT, text, NUMBER_RULE)
    if limit > 1 and limit != int(limit):
        return _invalid(LIMIT, text, WHOLE_CARDS_RULE)
    if limit > MAX_CARDS:
        return _invalid(LIMIT, text, MAX_RULE)
    return limit


def _implied_limit(request: str) -> Decimal | InvalidRequest:
    """The limit of a pod with only a request: one card for a share, else the requested cards."""
    share = plain_decimal(request)
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
    share = plain_decimal(text)
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
    is_quantity = len(text) <= LONGEST and _MEMORY_QUANTITY.fullmatch(text)
    memory = whole(text) if is_quantity else integer(text)
    if memory is None or memory < 0:
        return _invalid(MEMORY, text, MEMORY_RULE)
    if memory > count * HELD_BYTES.most:
        return _invalid(MEMORY, text, TOO_MUCH_MEMORY_RULE)
    return memory


def _invalid(label: str, value: str | None, rule: str) -> InvalidRequest:
    return InvalidRequest(field=label, value=value or "", rule=rule)
