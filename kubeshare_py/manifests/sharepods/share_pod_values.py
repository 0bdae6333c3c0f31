"""What is wrong with the values of a SharePod, by the dialect that its pod asks in."""

from collections.abc import Mapping

from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.sharepod.dialect import SharePods
from kubeshare_py.domain.request import InvalidRequest

_DIALECT = SharePods()


def value_problem(annotations: Mapping[str, str]) -> str:
    """The field that cannot be understood, its value and the rule; "" if all can."""
    asked = {key: value for key, value in annotations.items() if key in _DIALECT.owns.annotations}
    if not asked:
        return ""
    found = _DIALECT.read(PodAsk(labels={}, annotations=asked))
    return str(found) if isinstance(found, InvalidRequest) else ""
