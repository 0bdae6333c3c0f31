"""Kubernetes timestamps; `now` is always seconds since 1970."""

import re
from datetime import UTC, datetime

from kubeshare_py.embedded_cluster.protocol.status import Json

_MICRO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")


def timestamp(now: float) -> str:
    """`metav1.Time`: whole seconds, Z."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: float) -> str:
    """`metav1.MicroTime`: six fractional digits."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_micro_time(text: object) -> bool:
    """Whether it has the six fractional digits that MicroTime requires."""
    return isinstance(text, str) and _MICRO.match(text) is not None


def default_times(status: Json, seen: str) -> None:
    """Set missing times of conditions to null, as real servers do, in place.

    `seen` is the name of the time beside lastTransitionTime.
    """
    if status.get("conditions"):
        times: Json = {seen: None, "lastTransitionTime": None}
        status["conditions"] = [{**times, **one} for one in status["conditions"]]
