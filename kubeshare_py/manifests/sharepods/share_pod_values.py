"""What is wrong with the values of a SharePod, by the dialect that its pod asks in."""

from collections.abc import Mapping


def value_problem(annotations: Mapping[str, str]) -> str:
    """The field that cannot be understood, its value and the rule; "" if all can."""
    return ""
