"""The rules of `dialects/sharedgpu` and `dialects/standing` as CEL variables.

Each ends in a variable that is empty, or the module's sentence about the first problem. Tests
compare them with the dialect for arbitrary labels. Amounts are compared digit by digit, so exactly;
the minimum of a gang is compared as a double, which is exact for six decimals.
"""

from kubeshare_py.admission.cel_text import (
    NOTHING,
    Variables,
    annotation,
    digits,
    exceeds,
    first,
    first_problem,
    has_label,
    label,
    literal,
    matches,
    problem_text,
    sentence,
    shown,
)
from kubeshare_py.dialects import group_keys, sharedgpu, standing
from kubeshare_py.dialects.group_keys import WITHIN
from kubeshare_py.dialects.label_numbers import INT64_MOST
from kubeshare_py.domain.bounds import GROUP_MEMBERS, HELD_BYTES

_DECIMAL = "[0-9]+([.][0-9]+)?"
_INTEGER = "[0-9]+"
_MANTISSA = "[0-9]*[1-9][0-9]*[.]?[0-9]*|[0-9]+[.][0-9]*[1-9][0-9]*|[.][0-9]*[1-9][0-9]*"
_ABOVE_ZERO = f"[+]?({_MANTISSA})([eE][+-]?[0-9]{{1,3}})?"
#: More than 1 for any mantissa of 63 characters; API servers read no doubles so large.
_HUGE = "[eE][+]?[1-9][0-9]{2}$"
_HAS_LIMIT, _HAS_SHARE = has_label(sharedgpu.LIMIT), has_label(sharedgpu.REQUEST)
_IS_ALONE = "variables.alone == 'true'"
_COUNTS = (sharedgpu.LIMIT, sharedgpu.REQUEST)
#: The factors of memory units, as doubles.
_FACTORS = literal(
    {
        **{unit: 1000.0**power for power, unit in enumerate(["", *"kMGTPE"])},
        **{f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", start=1)},
    }
)
#: Far less than the difference of six decimals, far more than the error of doubles.
_HARDLY = 1e-7


def group() -> Variables:
    """The rules of `_group`, and of the annotation `group_within`."""
    name = first(
        [(f"{label(standing.GROUP)} != ''", label(standing.GROUP))],
        label(standing.GROUP_OTHER_NAME),
    )
    headcount, threshold = "variables.headcount", "variables.threshold"
    count = digits(headcount)
    too_long = exceeds(count, INT64_MOST)
    is_count = f"{matches(headcount, _INTEGER)} && {count} != '' && !{too_long}"
    in_group = f"variables.group != '' && {headcount} != '' && {threshold} != ''"
    # threshold * headcount, rounded, is more than headcount.
    over = (
        f"({threshold}.matches('{_HUGE}')"
        f" || (double({threshold}) - 1.0) * double({count}) >= 0.5 - {_HARDLY:.7f})"
    )
    too_many = ['"asks for more pods than the group\'s "', count, '", which can never be met"']
    within = "variables.within"
    return {
        "group": name,
        "headcount": label(standing.HEADCOUNT),
        "threshold": label(standing.THRESHOLD),
        "within": annotation(WITHIN),
        "groupProblem": first(
            [
                (
                    f"{headcount} != '' && !({is_count})",
                    problem_text(standing.HEADCOUNT, headcount, standing.HEADCOUNT_RULE),
                ),
                (
                    exceeds(count, GROUP_MEMBERS.most),
                    problem_text(standing.HEADCOUNT, headcount, standing.MAX_MEMBERS_RULE),
                ),
                (
                    f"{threshold} != '' && !{matches(threshold, _ABOVE_ZERO)}",
                    problem_text(standing.THRESHOLD, threshold, standing.THRESHOLD_RULE),
                ),
                (f"!({in_group})", NOTHING),
                (over, sentence(standing.THRESHOLD, threshold, *too_many)),
                (
                    f"{within} != '' && !{matches(within, group_keys.LABEL_KEY)}",
                    problem_text(WITHIN, shown(within, group_keys.SHOWN), group_keys.WITHIN_RULE),
                ),
            ]
        ),
    }


def priority() -> Variables:
    """The rules of `_priority`."""
    text = "variables.priority"
    within_bounds = "[+]?0*([0-9]|[1-9][0-9]|100)|-0*[01]"
    return {
        "priority": label(standing.PRIORITY),
        "priorityProblem": first(
            [
                (
                    f"{text} != '' && !{matches(text, within_bounds)}",
                    problem_text(standing.PRIORITY, text, standing.PRIORITY_RULE),
                )
            ]
        ),
    }


def request() -> Variables:
    """The rules of `_request`; `wantsCards` and `wholeCards` are bools for the rules of models.

    `advice` warns about valid values that are hardly meant.
    """
    limit, share = "variables.limit", "variables.request"
    return {
        "alone": label(sharedgpu.EXCLUSIVE),
        "aloneProblem": _alone(),
        "limit": label(sharedgpu.LIMIT),
        "request": first(
            [
                (
                    f"{_IS_ALONE} && !({_HAS_SHARE})",
                    f"({_HAS_LIMIT} ? {label(sharedgpu.LIMIT)} : '1')",
                )
            ],
            label(sharedgpu.REQUEST),
        ),
        "memory": label(sharedgpu.MEMORY),
        "numaBind": label(sharedgpu.NUMA_BIND),
        "limitWhole": _whole(limit),
        "limitPart": _part(limit),
        "requestWhole": _whole(share),
        "requestPart": _part(share),
        "wantsCards": (
            f"{_IS_ALONE} || ({_HAS_LIMIT}"
            f" ? variables.limitWhole != '' || variables.limitPart != '' : {_HAS_SHARE})"
        ),
        "wholeCards": f"variables.wantsCards && ({_IS_ALONE} || {_above_one('request')})",
        "limitProblem": _limit(),
        "shareProblem": _share(),
        "restProblem": _rest(),
        "advice": _advice(),
        "requestProblem": first_problem(
            ["aloneProblem", "limitProblem", "shareProblem", "restProblem"]
        ),
    }


def _alone() -> str:
    """The problem of a pod that says whether it wants its cards alone."""
    texts = (
        has_label(key) + f" && !{matches(label(key), sharedgpu.WHOLE_NUMBER)}" for key in _COUNTS
    )
    return first(
        [
            (
                "!(variables.alone in ['', 'true', 'false'])",
                problem_text(sharedgpu.EXCLUSIVE, "variables.alone", sharedgpu.FLAG_RULE),
            ),
            (
                f"{_IS_ALONE} && (" + " || ".join(texts) + ")",
                problem_text(sharedgpu.EXCLUSIVE, "variables.alone", sharedgpu.NOT_WHOLE_RULE),
            ),
        ]
    )


def _limit() -> str:
    """The problem of the limit, or of the request if that implies the limit."""
    alone = literal(f"{sharedgpu.MEMORY} {sharedgpu.ALONE_RULE}")
    return first(
        [
            (f"{_HAS_LIMIT}", f"({_amount(sharedgpu.LIMIT, 'limit')})"),
            (f"{_HAS_SHARE}", f"({_amount(sharedgpu.REQUEST, 'request')})"),
            (f"!({_IS_ALONE}) && {has_label(sharedgpu.MEMORY)}", alone),
        ]
    )


def _share() -> str:
    """The problem of a request beside a limit."""
    whole, part = "variables.limitWhole", "variables.limitPart"
    share_whole, share_part = "variables.requestWhole", "variables.requestPart"
    above_in_digits = (
        f"{share_whole} > {whole} || ({share_whole} == {whole} && {share_part} > {part})"
    )
    return first(
        [
            (f"!({_HAS_LIMIT} && {_HAS_SHARE})", NOTHING),
            (
                f"!{matches('variables.request', _DECIMAL)}",
                problem_text(sharedgpu.REQUEST, "variables.request", sharedgpu.NUMBER_RULE),
            ),
            (
                f"size({share_whole}) > size({whole})"
                f" || (size({share_whole}) == size({whole}) && ({above_in_digits}))",
                _compared("must not be above"),
            ),
            (
                f"{_above_one('limit')} && ({share_whole} != {whole} || {share_part} != {part})",
                _compared("must equal", ", above 1"),
            ),
        ]
    )


def _rest() -> str:
    """The problem of the rest, which is read only for pods that want cards."""
    return first(
        [
            ("!variables.wantsCards", NOTHING),
            (
                f"{has_label(sharedgpu.MEMORY)} && !({_is_memory('variables.memory')})",
                problem_text(sharedgpu.MEMORY, "variables.memory", sharedgpu.MEMORY_RULE),
            ),
            (
                f"{has_label(sharedgpu.MEMORY)} && {_is_too_much('variables.memory')}",
                problem_text(sharedgpu.MEMORY, "variables.memory", sharedgpu.TOO_MUCH_MEMORY_RULE),
            ),
            (
                "!(variables.numaBind in ['', 'true', 'false'])",
                problem_text(sharedgpu.NUMA_BIND, "variables.numaBind", sharedgpu.FLAG_RULE),
            ),
        ]
    )


def _whole(text: str) -> str:
    """The digits before the point."""
    return digits(f"{text}.split('.')[0]")


def _part(text: str) -> str:
    """The digits after the point, without trailing zeros."""
    return f"{text}.contains('.') ? {text}.split('.')[1].find('^[0-9]*[1-9]') : ''"


def _above_one(amount: str) -> str:
    """Whether the amount of this variable is more than one card: a bool."""
    whole, part = f"variables.{amount}Whole", f"variables.{amount}Part"
    return f"(size({whole}) > 1 || {whole} > '1' || ({whole} == '1' && {part} != ''))"


def _amount(key: str, amount: str) -> str:
    """The problem of the number of cards of this variable alone."""
    text = f"variables.{amount}"
    return first(
        [
            (f"!{matches(text, _DECIMAL)}", problem_text(key, text, sharedgpu.NUMBER_RULE)),
            (
                f"{_above_one(amount)} && {text}Part != ''",
                problem_text(key, text, sharedgpu.WHOLE_CARDS_RULE),
            ),
            (
                exceeds(f"{text}Whole", sharedgpu.MAX_CARDS),
                problem_text(key, text, sharedgpu.MAX_RULE),
            ),
        ]
    )


def _compared(how: str, why: str = "") -> str:
    """The sentence about a request that its limit does not allow; the limit in normal form."""
    whole = "(variables.limitWhole == '' ? '0' : variables.limitWhole)"
    part = "(variables.limit.contains('.') ? '.' + variables.limit.split('.')[1] : '')"
    rule = [literal(f"{how} {sharedgpu.LIMIT}, which is "), whole, part, literal(why)]
    return sentence(sharedgpu.REQUEST, "variables.request", *rule)


def _advice() -> str:
    few = matches("variables.memory", sharedgpu.FEW_BYTES)
    count = digits("variables.memory")
    units = literal(f" {sharedgpu.FEW_BYTES_ADVICE}")
    alone = "variables.group != '' && (variables.headcount == '' || variables.threshold == '')"
    return first(
        [
            (few, f"{literal(f'{sharedgpu.MEMORY} is ')} + {count} + {units}"),
            (alone, literal(standing.NO_GROUP_ADVICE)),
        ]
    )


def _is_memory(text: str) -> str:
    in_bytes = f"{matches(text, _INTEGER)} && !{exceeds(digits(text), INT64_MOST)}"
    return f"{matches(text, sharedgpu.MEMORY_QUANTITY)} || ({in_bytes})"


def _is_too_much(text: str) -> str:
    """Whether memory exceeds that of any card: a bool. Doubles err below that bound only."""
    number = f"{text}.find('^[0-9.]+')"
    factor = f"{_FACTORS}[{text}.substring(size({number}))]"
    plain = f"{text}.matches('[eE][0-9]') ? double({text}) : double({number}) * {factor}"
    huge = f"{text}.matches('{_HUGE}') ? {text}.matches('^[0.]*[1-9]')"
    count = "(variables.wholeCards ? double(variables.requestWhole) : 1.0)"
    return f"({huge} : ({plain}) > {count} * {float(HELD_BYTES.most):.1f})"
