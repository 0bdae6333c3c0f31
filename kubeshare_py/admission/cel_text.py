"""Pieces of CEL expressions, as text. All results are CEL strings unless stated otherwise.

The language: https://github.com/google/cel-spec; strings and regular expressions of API servers
since Kubernetes 1.30: https://kubernetes.io/docs/reference/using-api/cel/
"""

from collections.abc import Iterable, Mapping

import msgspec

#: Expressions by variable name, in an order in which they can be evaluated.
Variables = Mapping[str, str]

NOTHING = "''"
_INDENT = " " * 4


def literal(value: object) -> str:
    """A text, a list of texts or a number. JSON is CEL."""
    return msgspec.json.encode(value).decode()


def label(key: str) -> str:
    """The value of a label, '' if the pod does not have it."""
    return f"({has_label(key)} ? variables.labels['{key}'] : '')"


def annotation(key: str) -> str:
    """The value of an annotation, '' if the pod does not have it."""
    return f"('{key}' in variables.annotations ? variables.annotations['{key}'] : '')"


def has_label(key: str) -> str:
    """Whether the pod has the label: a bool."""
    return f"'{key}' in variables.labels"


def first(cases: Iterable[tuple[str, str]], otherwise: str = NOTHING) -> str:
    """The result of the first case whose condition holds."""
    lines = [f"{condition} ? {result} :" for condition, result in cases]
    return "\n".join([*lines, otherwise])


def first_problem(variables: Iterable[str]) -> str:
    """The first of these variables that is not empty."""
    return first((f"variables.{name} != ''", f"variables.{name}") for name in variables)


def sentence(key: str, value: str, *rule: str) -> str:
    """The sentence of `InvalidRequest`: key, value (CEL), and the rule in parts (CEL)."""
    return " + ".join([literal(f'{key}="'), value, literal('": '), *rule])


def problem_text(key: str, value: str, rule: str) -> str:
    """The same sentence with a rule that is plain text."""
    return " + ".join([literal(f'{key}="'), value, literal(f'": {rule}')])


def matches(text: str, pattern: str) -> str:
    """Whether the whole text (CEL) matches: a bool."""
    return f"{text}.matches({literal(f'^({pattern})$')})"


def shown(text: str, longest: int) -> str:
    """The beginning of a text (CEL) that may be long."""
    return f"(size({text}) > {longest} ? {text}.substring(0, {longest}) + '…' : {text})"


def digits(text: str) -> str:
    """An integer (CEL) without sign and leading zeros; '' for zero."""
    return f"{text}.find('[1-9][0-9]*$')"


def exceeds(text: str, most: int) -> str:
    """Whether a result of `digits` (CEL) is more than `most`: a bool."""
    limit = str(most)
    return f"(size({text}) > {len(limit)} || (size({text}) == {len(limit)} && {text} > '{limit}'))"


def as_entries(variables: Variables) -> str:
    """The variables as YAML, for the list `variables` of a policy."""
    return "".join(_entry(name, text) for name, text in variables.items())


def _entry(name: str, expression: str) -> str:
    lines = "\n".join(_INDENT + line for line in expression.splitlines())
    return f"- name: {name}\n  expression: >-\n{lines}\n"
