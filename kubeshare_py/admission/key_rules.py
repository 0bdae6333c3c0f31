"""The rules of `dialects/pod_keys` as CEL variables; see `label_rules`."""

from kubeshare_py.admission.cel_text import Variables, first, literal, matches
from kubeshare_py.dialects import pod_keys, results


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
