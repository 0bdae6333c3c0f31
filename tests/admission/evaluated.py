"""The policies' CEL, evaluated here: Google's evaluator, and the functions that API servers add.

https://kubernetes.io/docs/reference/using-api/cel/#cel-options-language-features-and-libraries
"""

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kubeshare_py.domain.quantity import amount

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


class PodRules:
    """Variables about a pod, `object`, and the settings `variables.own` of its profile.

    Quantities are whole numbers here, as amounts of extended resources are.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        cel = pytest.importorskip("cel_expr_python.cel", reason=REASON)
        kind, overload = cel.Type, cel.Overload
        functions = {
            "quantity": (kind.INT, [kind.STRING], _quantity),
            "isGreaterThan": (kind.BOOL, [kind.INT, kind.INT], operator.gt),
            "compareTo": (kind.INT, [kind.INT, kind.INT], lambda one, other: one - other),
            "asInteger": (kind.INT, [kind.INT], int),
        }
        env = cel.NewEnv(
            variables={"variables": kind.Map(kind.STRING, kind.DYN), "object": kind.DYN},
            functions=[
                cel.FunctionDecl(
                    name,
                    [overload(name, result, taken, is_member=name != "quantity", impl=found)],
                )
                for name, (result, taken, found) in functions.items()
            ],
        )
        self._compiled = {name: env.compile(text) for name, text in variables.items()}

    def evaluate(self, pod: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
        """All of them."""
        found: dict[str, Any] = {"hami": dict(own)}
        for name, expression in self._compiled.items():
            data = {"variables": found, "object": pod}
            found[name] = expression.eval(data=data).plain_value()
        return found


def _quantity(text: str) -> int:
    return amount("example.com/any", text)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


def _least(texts: list[str]) -> str:
    return min(texts)
