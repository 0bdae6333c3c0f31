"""Versions of an API in the order of their rank: v2, v1, v2beta1, v1alpha1, anything else.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

import re
from collections.abc import Iterable

_VERSION = re.compile(r"^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$")
_STAGES = ("", "beta", "alpha")


def by_rank(versions: Iterable[str]) -> list[str]:
    """The best first, each once."""
    return sorted(set(versions), key=_rank)


def _rank(version: str) -> tuple[int, int, int, str]:
    found = _VERSION.match(version)
    if found is None:
        return (len(_STAGES), 0, 0, version)
    return (_STAGES.index(found[2] or ""), -int(found[1]), -int(found[3] or 0), version)
