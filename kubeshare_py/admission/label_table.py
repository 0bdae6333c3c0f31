"""All rules about keys of new pods as one CEL variable, for the policies of the chart.

They are about `sharedgpu/*`, and about the annotations of KubeShare 1.0's SharePods.
"""

from collections.abc import Iterable

from kubeshare_py.admission.cel_text import (
    NOTHING,
    Variables,
    annotation,
    as_entries,
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
from kubeshare_py.dialects import pod_keys, results, sharedgpu
from kubeshare_py.dialects.label_numbers import INT64_MOST, LONGEST
from kubeshare_py.dialects.pod_keys import WITHIN
from kubeshare_py.dialects.sharedgpu import DENIED, MIX, MODEL_KEYS, MODELS, REQUEST_OF
from kubeshare_py.dialects.sharepod import (
    ALONE_RULE,
    AMOUNTS,
    LIMIT,
    MEMORY,
    MEMORY_RULE,
    MISSING_RULE,
    NUMBER_RULE,
    REQUEST,
    TAGS,
    TOO_MUCH_RULE,
    VIRTUAL_GPU,
    WORD_RULE,
)
from kubeshare_py.domain.gpu import ANY, PART, WORD
from kubeshare_py.domain.quantity import GROUP_MEMBERS, HELD_BYTES

# The rules of `dialects/pod_keys` as CEL variables; see `label_rules`.


def keys() -> Variables:
    """The rules of `unknown_key`. CEL cannot guess which key is meant: all are listed."""
    annotations = [*pod_keys.ASKING_ANNOTATIONS, *pod_keys.RESULT_ANNOTATIONS]
    return {
        "knownLabels": literal(pod_keys.LABELS),
        "knownAnnotations": f"{literal(annotations)} + variables.dialectAnnotations",
        "badLabels": (
            f"variables.labels.filter(key, {_is_ours('key')}\n&& !(key in variables.knownLabels))"
        ),
        "badAnnotations": (
            f"variables.annotations.filter(key, {_is_ours('key')}\n&& !{_is_annotation('key')})"
            f" + {_meant_as_labels()}"
        ),
        "badLabel": _least("variables.badLabels"),
        "badAnnotation": _least("variables.badAnnotations"),
        "keyProblem": first(
            [
                (
                    f"variables.badLabel != '' && {_is_annotation('variables.badLabel')}",
                    "variables.badLabel + ' is an annotation, not a label'",
                ),
                ("variables.badLabel != ''", _not_known("label", "badLabel", pod_keys.LABELS)),
                (
                    "variables.badAnnotation in variables.knownLabels",
                    "variables.badAnnotation + ' is a label, not an annotation'",
                ),
                (
                    "variables.badAnnotation != ''",
                    _not_known("annotation", "badAnnotation", pod_keys.ASKING_ANNOTATIONS),
                ),
            ]
        ),
    }


def _is_ours(key: str) -> str:
    lower = f"{key}.lowerAscii()"
    ours = f"{lower}.matches({literal(pod_keys.OURS)})"
    return f"{lower}.matches('{pod_keys.BEGINNING}')\n&& {ours}"


def _meant_as_labels() -> str:
    return (
        f"(variables.annotations.exists(key, key in {literal(pod_keys.COPIED_WITH)}) ? []\n"
        f": {literal(pod_keys.AMBIGUOUS)}.filter(key, key in variables.annotations"
        " && !(key in variables.labels)))"
    )


def _is_annotation(key: str) -> str:
    one_containers = matches(key, results.OF_ONE_CONTAINER.pattern)
    return f"({key} in variables.knownAnnotations || {one_containers})"


def _least(keys: str) -> str:
    return f"size({keys}) == 0 ? '' : {keys}.min()"


def _not_known(kind: str, variable: str, known: tuple[str, ...]) -> str:
    rest = literal(f" is not known; {kind}s are {', '.join(known)}")
    return f"'{kind} ' + variables.{variable} + {rest}"


# The rules of `dialects/sharedgpu` and `dialects/pod_keys` as CEL variables.
#
# Each ends in a variable that is empty, or the module's sentence about the first problem. Tests
# compare them with the dialect for arbitrary labels. Amounts are compared digit by digit, so
# exactly; the minimum of a gang is compared as a double, which is exact for six decimals.


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
        [(f"{label(pod_keys.GROUP)} != ''", label(pod_keys.GROUP))],
        label(pod_keys.GROUP_OTHER_NAME),
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
        "headcount": label(pod_keys.HEADCOUNT),
        "threshold": label(pod_keys.THRESHOLD),
        "within": annotation(WITHIN),
        "groupProblem": first(
            [
                (
                    f"{headcount} != '' && !({is_count})",
                    problem_text(pod_keys.HEADCOUNT, headcount, pod_keys.HEADCOUNT_RULE),
                ),
                (
                    exceeds(count, GROUP_MEMBERS.most),
                    problem_text(pod_keys.HEADCOUNT, headcount, pod_keys.MAX_MEMBERS_RULE),
                ),
                (
                    f"{threshold} != '' && !{matches(threshold, _ABOVE_ZERO)}",
                    problem_text(pod_keys.THRESHOLD, threshold, pod_keys.THRESHOLD_RULE),
                ),
                (f"!({in_group})", NOTHING),
                (over, sentence(pod_keys.THRESHOLD, threshold, *too_many)),
                (
                    f"{within} != '' && !{matches(within, pod_keys.LABEL_KEY)}",
                    problem_text(WITHIN, shown(within, pod_keys.SHOWN), pod_keys.WITHIN_RULE),
                ),
            ]
        ),
    }


def priority() -> Variables:
    """The rules of `_priority`."""
    text = "variables.priority"
    within_bounds = "[+]?0*([0-9]|[1-9][0-9]|100)|-0*[01]"
    return {
        "priority": label(pod_keys.PRIORITY),
        "priorityProblem": first(
            [
                (
                    f"{text} != '' && !{matches(text, within_bounds)}",
                    problem_text(pod_keys.PRIORITY, text, pod_keys.PRIORITY_RULE),
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
    several = (
        f"{matches('variables.limit', sharedgpu.SEVERAL)} && !({_HAS_SHARE}) && !({_IS_ALONE})"
    )
    alone = "variables.group != '' && (variables.headcount == '' || variables.threshold == '')"
    return first(
        [
            (few, f"{literal(f'{sharedgpu.MEMORY} is ')} + {count} + {units}"),
            (several, literal(sharedgpu.SEVERAL_ADVICE)),
            (alone, literal(pod_keys.NO_GROUP_ADVICE)),
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


# The rules of `dialects/sharedgpu` as CEL variables; see `label_rules`.


#: The variables of the texts, by their keys.
_TEXTS = {MODELS: "models", DENIED: "denied", MIX: "mix", REQUEST_OF: "requestOf"}


def models() -> Variables:
    """The rules of models; only for pods that want cards and have no other problem."""
    texts = {
        name: first([(f"{annotation(key)} != ''", annotation(key))], label(key))
        for key, name in _TEXTS.items()
    }
    return {
        **texts,
        "textProblem": _texts(),
        "modelNames": _names("variables.models.replace('>', ',')"),
        "lastModels": "variables.models.split('>')[size(variables.models.split('>')) - 1]",
        "deniedNames": _names("variables.denied"),
        "wishProblem": _wish(),
        "mixProblem": first(
            [
                (
                    f"!(variables.mix in ['', '{sharedgpu.SAME}', '{sharedgpu.WHICHEVER}'])",
                    _problem_text(MIX, sharedgpu.MIX_RULE),
                )
            ]
        ),
        "requestOfProblem": _share_of(),
        "modelProblem": first(
            [("!variables.wantsCards", NOTHING)],
            first_problem(["textProblem", "wishProblem", "mixProblem", "requestOfProblem"]),
        ),
    }


def _texts() -> str:
    """A label and an annotation that differ, or a too long text, in the order of keys."""
    cases = []
    for key in MODEL_KEYS:
        given, text = label(key), f"variables.{_TEXTS[key]}"
        differ = ['"must be what the label of this name says, which is \\""', given, "'\"'"]
        cases += [
            (
                f"{given} != '' && {text} != {given}",
                sentence(key, shown(text, sharedgpu.SHOWN), *differ),
            ),
            (
                f"size({text}) > {sharedgpu.LONGEST_MODELS}",
                _problem_text(key, sharedgpu.TOO_LONG_RULE),
            ),
        ]
    return first(cases)


def _wish() -> str:
    names, denied = "variables.modelNames", "variables.deniedNames"
    names_rule = sharedgpu.NAME_RULE
    twice = f"{names}.filter(one, {names}.filter(other, other == one).size() > 1)"
    any_name = f"'{ANY}'"
    last = _norm("variables.lastModels")
    too_many = sharedgpu.MAX_NAMES
    return first(
        [
            (
                f"variables.models != '' && !{_all_names(names)}",
                _problem_text(MODELS, names_rule + sharedgpu.TIERS_RULE),
            ),
            (f"variables.denied != '' && !{_all_names(denied)}", _problem_text(DENIED, names_rule)),
            # Before names are compared with each other, which would be too expensive.
            (f"size({names}) > {too_many}", _problem_text(MODELS, sharedgpu.TOO_MANY_RULE)),
            (_many_stars(names), _problem_text(MODELS, sharedgpu.STARS_RULE)),
            (
                f"variables.models != '' && {twice}.size() > 0",
                sentence(
                    MODELS,
                    shown("variables.models", sharedgpu.SHOWN),
                    f"'names ' + {twice}.min() + ' twice'",
                ),
            ),
            (
                f"{any_name} in {names} && {last} != {any_name}",
                _problem_text(MODELS, sharedgpu.ANY_RULE),
            ),
            (f"{any_name} in {denied}", _problem_text(DENIED, sharedgpu.ALL_DENIED_RULE)),
            (f"size({denied}) > {too_many}", _problem_text(DENIED, sharedgpu.TOO_MANY_RULE)),
            (_many_stars(denied), _problem_text(DENIED, sharedgpu.STARS_RULE)),
        ]
    )


def _share_of() -> str:
    text = _norm("variables.requestOf")
    return first(
        [
            ("variables.requestOf == ''", NOTHING),
            (
                f"!{matches(text, PART)} || {text}.contains('{ANY}')",
                _problem_text(REQUEST_OF, sharedgpu.ONE_MODEL_RULE),
            ),
            ("variables.wholeCards", _problem_text(REQUEST_OF, sharedgpu.SHARES_ONLY_RULE)),
        ]
    )


def _problem_text(key: str, rule: str) -> str:
    return problem_text(key, shown(f"variables.{_TEXTS[key]}", sharedgpu.SHOWN), rule)


def _names(text: str) -> str:
    """The names between commas, in normal form and lower case: a list."""
    return f"{text}.split(',').map(name, {_norm('name')}.lowerAscii())"


def _all_names(names: str) -> str:
    return f"{names}.all(name, {matches('name', PART)})"


def _many_stars(names: str) -> str:
    """Whether a name has more stars than it may: a bool."""
    return f"{names}.exists(name, size(name.split('{ANY}')) > {sharedgpu.MAX_STARS + 1})"


def _norm(name: str) -> str:
    """The result of `name_part`: one dash for spaces and dashes, none at the ends."""
    words = f"{name}.replace(' ', '-').split('-').filter(word, word != '').join('-')"
    # Runs of stars become one: each step halves them, and a text has at most 1024 characters.
    return words + ".replace('**', '*')" * 10


# The rules of `dialects/sharepod` about annotations of new pods as CEL variables.
#
# They count where the pod's profile enables the dialect. Numbers are compared as doubles: what is
# refused here, the scheduler does not understand either; of numbers that differ beyond 16 digits
# only the scheduler says so.


_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?"
#: More than 1 for any mantissa of 63 characters; API servers read no doubles so large.
_HUGE_IN = "[1-9].*[eE][+]?[1-9][0-9]{2}$"
_BYTES = "[+]?[0-9]+|-0+"
#: As `InvalidRequest` shows values.
_SHOWN = 128
_VARIABLES = {LIMIT: "shareLimit", REQUEST: "shareRequest", MEMORY: "shareMemory"}


def sharepods() -> Variables:
    """The rules of `read`; `sharePodProblem` is the first sentence, '' if there is none."""
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
        f"size({text}) <= {LONGEST} && {matches(text, _NUMBER)} && !{text}.matches('{_HUGE_IN}')"
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


#: Variables with problems, in the order in which the scheduler reports them. That of the pod's
#: dialect is the chart's own (templates/_dialect-rules.tpl): profiles enable dialects.
PROBLEMS = (
    *("keyProblem", "groupProblem", "priorityProblem"),
    *("dialectProblem", "sharePodProblem", "requestProblem", "modelProblem"),
)

_HEAD = (
    "{{- /* Rules of kubeshare_py/dialects about sharedgpu/* as CEL; written by `make manifests`."
    " */}}\n"
)


def variables() -> Variables:
    """All variables, in order; `problem` is the first sentence, '' if there is none.

    They need `variables.labels` and `variables.annotations`, maps of texts, and of the chart's own
    `variables.dialectProblem` and `variables.dialectAnnotations`, a list of the annotations by
    which pods of the profile ask in its dialects.
    """
    all_rules = (keys(), group(), priority(), sharepods(), request(), models())
    found = {name: text for rules in all_rules for name, text in rules.items()}
    return {**found, "problem": first_problem(PROBLEMS)}


def template() -> str:
    """The content of deploy/chart/kubeshare/templates/_labels.tpl."""
    entries = as_entries(variables())
    return f'{_HEAD}{{{{- define "kubeshare.cel.labelRules" -}}}}\n{entries}{{{{- end }}}}\n'
