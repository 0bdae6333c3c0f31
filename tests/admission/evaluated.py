"""The policies' CEL, evaluated here: Google's evaluator, and the functions that API servers add.

https://kubernetes.io/docs/reference/using-api/cel/#cel-options-language-features-and-libraries
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

REASON = "there is no cel-expr-python for this Python or machine"


class Rules:
    """Variables that may refer to those before them, as policies have them."""

    def __init__(
        self, variables: Mapping[str, str], dialect_annotations: Sequence[str] = ()
    ) -> None:
        self._dialect_annotations = [*dialect_annotations]
        cel = pytest.importorskip("cel_expr_python.cel", reason=REASON)
        strings = pytest.importorskip("cel_expr_python.ext.ext_strings", reason=REASON)
        text, kind = cel.Type.STRING, cel.Type
        overload = cel.Overload
        find = overload("find", text, [text, text], is_member=True, impl=_find)
        least = overload("least", text, [kind.List(text)], is_member=True, impl=_least)
        names = kind.Map(text, text)
        env = cel.NewEnv(
            variables={"variables": kind.Map(text, kind.DYN), "labels": names},
            extensions=[strings.ExtStrings()],
            functions=[cel.FunctionDecl("find", [find]), cel.FunctionDecl("min", [least])],
        )
        self._compiled = {name: env.compile(text) for name, text in variables.items()}

    def evaluate(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
        """All of them, for a pod with these."""
        found: dict[str, Any] = {"labels": dict(labels), "annotations": dict(annotations)}
        found["dialectProblem"] = ""
        found["dialectAnnotations"] = self._dialect_annotations
        for name, expression in self._compiled.items():
            found[name] = expression.eval(data={"variables": found}).plain_value()
        return found


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


def _least(texts: list[str]) -> str:
    return min(texts)
