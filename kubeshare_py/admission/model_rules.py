"""The rules of `dialects/sharedgpu_models` as CEL variables; see `label_rules`."""

from kubeshare_py.admission.cel_text import (
    NOTHING,
    Variables,
    annotation,
    first,
    first_problem,
    label,
    matches,
    problem_text,
    sentence,
    shown,
)
from kubeshare_py.dialects import sharedgpu_models
from kubeshare_py.dialects.sharedgpu_models import DENIED, KEYS, MIX, MODELS, REQUEST_OF
from kubeshare_py.domain.gpu_models import ANY, PART

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
                    f"!(variables.mix in ['', '{sharedgpu_models.SAME}',"
                    f" '{sharedgpu_models.WHICHEVER}'])",
                    _problem_text(MIX, sharedgpu_models.MIX_RULE),
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
    for key in KEYS:
        given, text = label(key), f"variables.{_TEXTS[key]}"
        differ = ['"must be what the label of this name says, which is \\""', given, "'\"'"]
        cases += [
            (
                f"{given} != '' && {text} != {given}",
                sentence(key, shown(text, sharedgpu_models.SHOWN), *differ),
            ),
            (
                f"size({text}) > {sharedgpu_models.LONGEST}",
                _problem_text(key, sharedgpu_models.TOO_LONG_RULE),
            ),
        ]
    return first(cases)


def _wish() -> str:
    names, denied = "variables.modelNames", "variables.deniedNames"
    names_rule = sharedgpu_models.NAME_RULE
    twice = f"{names}.filter(one, {names}.filter(other, other == one).size() > 1)"
    any_name = f"'{ANY}'"
    last = _norm("variables.lastModels")
    too_many = sharedgpu_models.MAX_NAMES
    return first(
        [
            (
                f"variables.models != '' && !{_all_names(names)}",
                _problem_text(MODELS, names_rule + sharedgpu_models.TIERS_RULE),
            ),
            (f"variables.denied != '' && !{_all_names(denied)}", _problem_text(DENIED, names_rule)),
            # Before names are compared with each other, which would be too expensive.
            (f"size({names}) > {too_many}", _problem_text(MODELS, sharedgpu_models.TOO_MANY_RULE)),
            (_many_stars(names), _problem_text(MODELS, sharedgpu_models.STARS_RULE)),
            (
                f"variables.models != '' && {twice}.size() > 0",
                sentence(
                    MODELS,
                    shown("variables.models", sharedgpu_models.SHOWN),
                    f"'names ' + {twice}.min() + ' twice'",
                ),
            ),
            (
                f"{any_name} in {names} && {last} != {any_name}",
                _problem_text(MODELS, sharedgpu_models.ANY_RULE),
            ),
            (f"{any_name} in {denied}", _problem_text(DENIED, sharedgpu_models.ALL_DENIED_RULE)),
            (f"size({denied}) > {too_many}", _problem_text(DENIED, sharedgpu_models.TOO_MANY_RULE)),
            (_many_stars(denied), _problem_text(DENIED, sharedgpu_models.STARS_RULE)),
        ]
    )


def _share_of() -> str:
    text = _norm("variables.requestOf")
    return first(
        [
            ("variables.requestOf == ''", NOTHING),
            (
                f"!{matches(text, PART)} || {text}.contains('{ANY}')",
                _problem_text(REQUEST_OF, sharedgpu_models.ONE_MODEL_RULE),
            ),
            ("variables.wholeCards", _problem_text(REQUEST_OF, sharedgpu_models.NOT_WHOLE_RULE)),
        ]
    )


def _problem_text(key: str, rule: str) -> str:
    return problem_text(key, shown(f"variables.{_TEXTS[key]}", sharedgpu_models.SHOWN), rule)


def _names(text: str) -> str:
    """The names between commas, in normal form and lower case: a list."""
    return f"{text}.split(',').map(name, {_norm('name')}.lowerAscii())"


def _all_names(names: str) -> str:
    return f"{names}.all(name, {matches('name', PART)})"


def _many_stars(names: str) -> str:
    """Whether a name has more stars than it may: a bool."""
    return f"{names}.exists(name, size(name.split('{ANY}')) > {sharedgpu_models.MAX_STARS + 1})"


def _norm(name: str) -> str:
    """The result of `name_part`: one dash for spaces and dashes, none at the ends."""
    words = f"{name}.replace(' ', '-').split('-').filter(word, word != '').join('-')"
    # Runs of stars become one: each step halves them, and a text has at most 1024 characters.
    return words + ".replace('**', '*')" * 10
