"""Filter: nodes that labels keep from the pod's dialect take none of its pods.

Which labels count is the dialect's to say (`Dialect.node_rules`), such as KubeShare's
`SharedGPU: "true"`.
"""

import numpy as np

from kubeshare_plugins.kubernetes.node_affinity import Flags, Integers, LabelJudge
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.plugin import (
    Depends,
    IntArray,
    ReasonTable,
    Requirement,
    RowFilter,
    Rows,
    Shape,
)


class DialectNodes:
    """A node has the label with another value, or lacks a label that the profile requires."""

    name = "DialectNodes"
    only_for = ("node_rules",)
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods whose dialect has no rule about nodes."""
        if not shape.node_rules:
            return None
        judged = [
            (_Judge(rule), reasons.register(self.name, reason(rule), resolvable=False))
            for rule in shape.node_rules
        ]

        def ask(rows: Rows) -> IntArray:
            masks: IntArray = np.zeros(len(rows.index), np.int64)
            for judge, mask in judged:
                masks |= np.where(judge.holds(rows), 0, mask)
            return masks

        return ask


def reason(rule: NodeRule) -> str:
    """The reason of a rule, with the label and the values that it wants."""
    wanted = " or ".join(rule.values)
    if rule.required:
        return f"node(s) didn't have the label {rule.label}={wanted}"
    return f"node(s) had the label {rule.label} with another value than {wanted}"


class _Judge:
    """One rule; each distinct value of its label is judged once."""

    __slots__ = ("_absent", "_required", "_wanted")

    def __init__(self, rule: NodeRule) -> None:
        integers = Integers()
        self._wanted = LabelJudge(Requirement(rule.label, "In", rule.values), integers)
        self._absent = LabelJudge(Requirement(rule.label, "DoesNotExist"), integers)
        self._required = rule.required

    def holds(self, rows: Rows) -> Flags:
        """Which rows the dialect may use; (k,) bool."""
        wanted = self._wanted.holds(rows)
        return wanted if self._required else wanted | self._absent.holds(rows)
