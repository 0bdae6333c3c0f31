"""Models of cards beyond `sharedgpu/gpu_model`: lists, orders, denials.

None of this is KubeShare's. Label values can hold neither commas nor ">" (Kubernetes: letters,
digits, dashes, dots and underscores), so annotations of the same names are read as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kubeshare_py.domain.gpu_models import ANY, PreferredModels, name_part
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

MODELS = "sharedgpu/gpu_models"
DENIED = "sharedgpu/gpu_models_denied"
MIX = "sharedgpu/gpu_model_mix"
REQUEST_OF = "sharedgpu/gpu_request_of"
KEYS = (MODELS, DENIED, MIX, REQUEST_OF)
_KEYS = frozenset(KEYS)

#: The values of `MIX`: all cards of one model, or any models.
SAME, WHICHEVER = "same", "any"
MAX_NAMES = 16
#: The most stars in one name.
MAX_STARS = 4
#: The most characters of a value: sixteen names of 64, or four of the longest.
LONGEST = 1024

NAME_RULE = (
    'must be names of GPU models or words of them, such as A100, with "," between equally good ones'
)
TIERS_RULE = ', and ">" before worse ones'
TOO_LONG_RULE = f"must not be longer than {LONGEST} characters"
TOO_MANY_RULE = f"must not be more than {MAX_NAMES} names"
STARS_RULE = f'must not have more than {MAX_STARS} "*" in a name'
ANY_RULE = f'must have "{ANY}", all other models, at its end and alone: "A100 > {ANY}"'
ALL_DENIED_RULE = f'must not be "{ANY}", which denies every model'
MIX_RULE = f'must be "{SAME}" or "{WHICHEVER}"'
ONE_MODEL_RULE = "must be the name of one GPU model, such as A100"
NOT_WHOLE_RULE = "is for shares of one card, not for whole ones"
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
    if _KEYS.isdisjoint(labels) and _KEYS.isdisjoint(annotations):
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
    for key in KEYS:
        label, annotation = labels.get(key, ""), annotations.get(key, "")
        text = annotation or label
        if label and annotation and label != annotation:
            rule = f'must be what the label of this name says, which is "{label}"'
            return InvalidRequest(field=key, value=_shown(text), rule=rule)
        if len(text) > LONGEST:
            return _invalid(key, text, TOO_LONG_RULE)
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
            return _invalid(MODELS, texts.models, f"{NAME_RULE}{TIERS_RULE}")
        tiers.append(names)
    denied = _names(texts.denied) if texts.denied else ()
    if denied is None:
        return _invalid(DENIED, texts.denied, NAME_RULE)
    problem = _tiers_problem(tiers)
    if problem:
        return _invalid(MODELS, texts.models, problem)
    problem = _denied_problem(denied)
    if problem:
        return _invalid(DENIED, texts.denied, problem)
    return PreferredModels(tiers=tuple(tiers), denied=denied) if tiers or denied else None


def _mix_problem(texts: _ModelTexts) -> InvalidRequest | None:
    """The problem of the word about mixing models; None if there is none."""
    if texts.mix in ("", SAME, WHICHEVER):
        return None
    return _invalid(MIX, texts.mix, MIX_RULE)


def _share_of(texts: _ModelTexts, exclusive: bool) -> str | InvalidRequest:
    """The model whose share is meant, "" for any."""
    text = texts.request_of
    part = name_part(text) if text else ""
    if part is None or ANY in part:
        return _invalid(REQUEST_OF, text, ONE_MODEL_RULE)
    if part and exclusive:
        return _invalid(REQUEST_OF, text, NOT_WHOLE_RULE)
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


def _invalid(key: str, value: str, rule: str) -> InvalidRequest:
    return InvalidRequest(field=key, value=_shown(value), rule=rule)


def _shown(value: str) -> str:
    return value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
