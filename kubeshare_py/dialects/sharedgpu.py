"""KubeShare 2.0's dialect: labels `sharedgpu/*` on the pod, and annotations on models."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from kubeshare_py.dialects.label_numbers import LONGEST, integer, plain_decimal, thousandths
from kubeshare_py.domain.gpu import ANY, WHOLE_MILLI, PreferredModels, name_part
from kubeshare_py.domain.quantity import CLAIMED_CARDS, HELD_BYTES, whole
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim, GpuRequest, InvalidRequest
from kubeshare_py.domain.values import replace

# Models of cards beyond `sharedgpu/gpu_model`: lists, orders, denials.
#
# None of this is KubeShare's. Label values can hold neither commas nor ">" (Kubernetes: letters,
# digits, dashes, dots and underscores), so annotations of the same names are read as well.


MODELS = "sharedgpu/gpu_models"
DENIED = "sharedgpu/gpu_models_denied"
MIX = "sharedgpu/gpu_model_mix"
REQUEST_OF = "sharedgpu/gpu_request_of"
MODEL_KEYS: tuple[str, ...] = (MODELS, DENIED, MIX, REQUEST_OF)
_MODEL_KEYS = frozenset(MODEL_KEYS)

#: The values of `MIX`: all cards of one model, or any models.
SAME, WHICHEVER = "same", "any"
MAX_NAMES = 16
#: The most stars in one name.
MAX_STARS = 4
#: The most characters of a value: sixteen names of 64, or four of the longest.
LONGEST_MODELS = 1024

NAME_RULE = (
    'must be names of GPU models or words of them, such as A100, with "," between equally good ones'
)
TIERS_RULE = ', and ">" before worse ones'
TOO_LONG_RULE = f"must not be longer than {LONGEST_MODELS} characters"
TOO_MANY_RULE = f"must not be more than {MAX_NAMES} names"
STARS_RULE = f'must not have more than {MAX_STARS} "*" in a name'
ANY_RULE = f'must have "{ANY}", all other models, at its end and alone: "A100 > {ANY}"'
ALL_DENIED_RULE = f'must not be "{ANY}", which denies every model'
MIX_RULE = f'must be "{SAME}" or "{WHICHEVER}"'
ONE_MODEL_RULE = "must be the name of one GPU model, such as A100"
SHARES_ONLY_RULE = "is for shares of one card, not for whole ones"
# Each distinct request is combined once with each distinct set of texts.
_REMEMBERED = 4096
#: The most characters of a too long value that are shown.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class _ModelTexts:
    """The values as written, "" if there is none."""

    models: str = ""
    denied: str = ""
    mix: str = ""
    request_of: str = ""


_NO_TEXTS = _ModelTexts()


def with_models(
    request: GpuRequest,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None,
    grouped: bool,
) -> GpuRequest | InvalidRequest:
    """The request with what the pod says about models; the same object if it says nothing."""
    annotations = annotations or {}
    if _MODEL_KEYS.isdisjoint(labels) and _MODEL_KEYS.isdisjoint(annotations):
        return request  # nearly always
    texts = _texts_of(labels, annotations)
    if isinstance(texts, InvalidRequest):
        return texts
    return request if texts == _NO_TEXTS else _with_texts(request, texts, grouped)


def _texts_of(
    labels: Mapping[str, str], annotations: Mapping[str, str]
) -> _ModelTexts | InvalidRequest:
    """The values; a label and an annotation that differ are an error, because both are rules."""
    found = []
    for key in MODEL_KEYS:
        label, annotation = labels.get(key, ""), annotations.get(key, "")
        text = annotation or label
        if label and annotation and label != annotation:
            rule = f'must be what the label of this name says, which is "{label}"'
            return InvalidRequest(field=key, value=_shown(text), rule=rule)
        if len(text) > LONGEST_MODELS:
            return _invalid_models(key, text, TOO_LONG_RULE)
        found.append(text)
    return _ModelTexts(*found)


@remembered(_REMEMBERED)
def _with_texts(
    request: GpuRequest, texts: _ModelTexts, grouped: bool
) -> GpuRequest | InvalidRequest:
    preferred = _preferred_models(texts)
    if isinstance(preferred, InvalidRequest):
        return preferred
    problem = _mix_problem(texts)
    if problem is not None:
        return problem
    [one] = request.claims
    asked = one.claim
    share_of = _share_of(texts, asked.exclusive)
    if isinstance(share_of, InvalidRequest):
        return share_of
    # A single card has one model: its pods need no shape of their own.
    same = texts.mix == SAME and (asked.count > 1 or grouped)
    claim = replace(asked, preferred=preferred, one_model=same, share_of=share_of)
    return replace(request, claims=(replace(one, claim=claim),))


def _preferred_models(texts: _ModelTexts) -> PreferredModels | InvalidRequest | None:
    """The accepted models; None if the pod states none."""
    tiers: list[tuple[str, ...]] = []
    for tier in texts.models.split(">") if texts.models else ():
        names = _names(tier)
        if names is None:
            return _invalid_models(MODELS, texts.models, f"{NAME_RULE}{TIERS_RULE}")
        tiers.append(names)
    denied = _names(texts.denied) if texts.denied else ()
    if denied is None:
        return _invalid_models(DENIED, texts.denied, NAME_RULE)
    problem = _tiers_problem(tiers)
    if problem:
        return _invalid_models(MODELS, texts.models, problem)
    problem = _denied_problem(denied)
    if problem:
        return _invalid_models(DENIED, texts.denied, problem)
    return PreferredModels(tiers=tuple(tiers), denied=denied) if tiers or denied else None


def _mix_problem(texts: _ModelTexts) -> InvalidRequest | None:
    """The problem of the word about mixing models; None if there is none."""
    if texts.mix in ("", SAME, WHICHEVER):
        return None
    return _invalid_models(MIX, texts.mix, MIX_RULE)


def _share_of(texts: _ModelTexts, exclusive: bool) -> str | InvalidRequest:
    """The model whose share is meant, "" for any."""
    text = texts.request_of
    part = name_part(text) if text else ""
    if part is None or ANY in part:
        return _invalid_models(REQUEST_OF, text, ONE_MODEL_RULE)
    if part and exclusive:
        return _invalid_models(REQUEST_OF, text, SHARES_ONLY_RULE)
    return part


def _names(text: str) -> tuple[str, ...] | None:
    """Names between commas, with dashes for spaces in them; None if one is bad."""
    names = [name_part(name) for name in text.split(",")]
    return None if None in names else tuple(name for name in names if name is not None)


def _tiers_problem(tiers: list[tuple[str, ...]]) -> str:
    names = [name.lower() for tier in tiers for name in tier]
    if len(names) > MAX_NAMES:
        return TOO_MANY_RULE
    if any(map(_has_many_stars, names)):
        return STARS_RULE
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"names {twice[0]} twice"
    if ANY in names and tiers[-1] != (ANY,):
        return ANY_RULE
    return ""


def _denied_problem(denied: tuple[str, ...]) -> str:
    if ANY in denied:
        return ALL_DENIED_RULE
    if len(denied) > MAX_NAMES:
        return TOO_MANY_RULE
    return STARS_RULE if any(map(_has_many_stars, denied)) else ""


def _has_many_stars(name: str) -> bool:
    return name.count(ANY) > MAX_STARS


def _invalid_models(key: str, value: str, rule: str) -> InvalidRequest:
    return InvalidRequest(field=key, value=_shown(value), rule=rule)


def _shown(value: str) -> str:
    return value if len(value) <= SHOWN else f"{value[:SHOWN]}…"


# KubeShare 2.0's dialect: labels `sharedgpu/*` on the pod, and annotations on models.
#
# Label meanings and the order of checks follow KubeShare 2.0 (pod labels, README and
# pkg/scheduler/pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0). Deliberate differences:
# any decimal is a number, so "0", "10" and "100" are accepted; amounts are computed exactly; memory
# may have a unit; a request needs no limit beside it. `sharedgpu/numa_bind` and
# `sharedgpu/gpu_exclusive` are new. Priority and gangs, which are the same in every dialect, are in
# `pod_keys`.


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
#: Two or more cards as a limit; valid for RE2 too.
SEVERAL = "0*([2-9]|[1-9][0-9]+)([.]0+)?"
SEVERAL_ADVICE = (
    f"{LIMIT} of several cards without {REQUEST} sets nothing aside: the pod gets a place on one"
    " card"
)
_MEMORY_QUANTITY = re.compile(MEMORY_QUANTITY)
_SEVERAL = re.compile(SEVERAL)
_FEW_BYTES = re.compile(FEW_BYTES)
_WHOLE_NUMBER = re.compile(WHOLE_NUMBER)
_FLAGS = (None, "", "true", "false")


def advice(labels: Mapping[str, str]) -> str:
    """A warning about a valid amount that is hardly meant, as admission gives it too; or ""."""
    memory, limit = labels.get(MEMORY), labels.get(LIMIT)
    if memory and _FEW_BYTES.fullmatch(memory):
        return f"{MEMORY} is {int(memory)} {FEW_BYTES_ADVICE}"
    is_alone = REQUEST not in labels and labels.get(EXCLUSIVE) != "true"
    return SEVERAL_ADVICE if limit and is_alone and _SEVERAL.fullmatch(limit) else ""


def read(
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    guarantee: bool = False,
    grouped: bool = False,
) -> GpuRequest | InvalidRequest | None:
    """The pod's request, or the first problem in KubeShare's order of checks; None: no GPU.

    `guarantee`: the pod has a priority above 0; `grouped`: it has a gang. Of annotations, only
    those about models are read.
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
