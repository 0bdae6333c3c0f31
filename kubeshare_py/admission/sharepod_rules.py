"""The rules of `dialects/sharepod` about annotations of new pods as CEL variables.

They count where the pod's profile enables the dialect. Numbers are compared as doubles: what is
refused here, the scheduler does not understand either; of numbers that differ beyond 16 digits
only the scheduler says so.
"""

from collections.abc import Iterable

from kubeshare_py.admission.cel_text import (
    NOTHING,
    Variables,
    annotation,
    digits,
    exceeds,
    first,
    literal,
    matches,
    sentence,
    shown,
)
from kubeshare_py.dialects.label_numbers import INT64_MOST, LONGEST
from kubeshare_py.dialects.sharepod.keys import AMOUNTS, LIMIT, MEMORY, REQUEST, TAGS, VIRTUAL_GPU
from kubeshare_py.dialects.sharepod.request import (
    ALONE_RULE,
    MEMORY_RULE,
    MISSING_RULE,
    NUMBER_RULE,
    TOO_MUCH_RULE,
    WORD_RULE,
)
from kubeshare_py.domain.bounds import HELD_BYTES
from kubeshare_py.domain.card_tags import WORD

_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?"
#: More than 1 for any mantissa of 63 characters; API servers read no doubles so large.
_HUGE = "[1-9].*[eE][+]?[1-9][0-9]{2}$"
_BYTES = "[+]?[0-9]+|-0+"
#: As `InvalidRequest` shows values.
_SHOWN = 128
_VARIABLES = {LIMIT: "shareLimit", REQUEST: "shareRequest", MEMORY: "shareMemory"}


def sharepods() -> Variables:
    """The rules of `request.read`; `sharePodProblem` is the first sentence, '' if there is none."""
    texts = {key: f"variables.{name}" for key, name in _VARIABLES.items()}
    limit, share = texts[LIMIT], texts[REQUEST]
    has_none = " && ".join(f"{texts[key]} == ''" for key in AMOUNTS)
    alone = first(
        (f"{annotation(key)} != ''", literal(f"{key} {ALONE_RULE}")) for key in (VIRTUAL_GPU, *TAGS)
    )
    above = [literal(f"must not be above {LIMIT}, which is "), limit]
    return {
        **{name: annotation(key) for key, name in _VARIABLES.items()},
        "sharePodProblem": first(
            [
                (f"!('{REQUEST}' in variables.dialectAnnotations)", NOTHING),
                (has_none, f"({alone})"),
                *((f"{texts[key]} == ''", literal(f"{key} {MISSING_RULE}")) for key in AMOUNTS),
                (f"!({_is_part(limit)})", _said(LIMIT, limit, NUMBER_RULE)),
                (f"!({_is_part(share)})", _said(REQUEST, share, NUMBER_RULE)),
                (f"double({share}) > double({limit})", sentence(REQUEST, share, *above)),
                *_of_memory(texts[MEMORY]),
                *(_of_word(key) for key in (VIRTUAL_GPU, *TAGS)),
            ]
        ),
    }


def _is_part(text: str) -> str:
    """Whether a text is a number from 0 to 1: a bool."""
    return (
        f"size({text}) <= {LONGEST} && {matches(text, _NUMBER)} && !{text}.matches('{_HUGE}')"
        f" && double({text}) >= 0.0 && double({text}) <= 1.0"
    )


def _of_memory(text: str) -> Iterable[tuple[str, str]]:
    count = digits(text)
    is_count = f"size({text}) <= {LONGEST} && {matches(text, _BYTES)}"
    return (
        (
            f"!({is_count}) || {exceeds(count, INT64_MOST)}",
            _said(MEMORY, text, MEMORY_RULE),
        ),
        (exceeds(count, HELD_BYTES.most), _said(MEMORY, text, TOO_MUCH_RULE)),
    )


def _of_word(key: str) -> tuple[str, str]:
    text = annotation(key)
    return f"{text} != '' && !{matches(text, WORD)}", _said(key, text, WORD_RULE)


def _said(key: str, text: str, rule: str) -> str:
    return sentence(key, shown(text, _SHOWN), literal(rule))
