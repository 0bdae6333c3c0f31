"""What users write into the annotations of KubeShare 1.0's SharePods."""

from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.pod_request import read
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import AMOUNTS, KEYS, LIMIT, MEMORY, REQUEST, SharePods
from kubeshare_py.domain.quantity import HELD_BYTES
from tests.fuzz import odd
from tests.fuzz.family import Family, said

_TABLE = DialectTable((SHAREDGPU, SharePods()))
_WRITTEN = {
    **dict.fromkeys(KEYS, "red"),
    REQUEST: "0.5",
    LIMIT: "1.0",
    MEMORY: "1073741824",
}


def _odd_annotations(rng: Random) -> Any:
    given = {key: one for key, one in _WRITTEN.items() if key in AMOUNTS or rng.random() < 0.3}
    for _ in range(rng.randint(0, 3)):
        key = rng.choice(KEYS) if rng.random() < 0.9 else odd.text(rng, "kubeshare/gpu_request")
        given[key] = odd.text(rng, given.get(key, "0.5"))
    if rng.random() < 0.2:
        given.pop(rng.choice([*given]))
    return given


def judge_annotations(given: Any) -> None:
    """The dialect's reading, against sums of our own."""
    found = read({}, given, table=_TABLE)
    assert found == read({}, dict(reversed(given.items())), table=_TABLE), "the order matters"
    if found.problem is not None:
        said(str(found.problem), found.problem.field[:60])
    if found.request is None:
        assert found.problem is not None or not any(given.get(key) for key in KEYS)
        return
    assert found.problem is None
    [one] = found.request.claims
    share, limit = Fraction(given[REQUEST]), Fraction(given[LIMIT])
    assert 0 <= share <= limit <= 1
    assert one.claim.milli == ceil(share * 1000)
    assert one.limit_milli == max(1, ceil(limit * 1000))
    assert one.claim.memory_bytes == int(given[MEMORY])
    assert HELD_BYTES.allows(int(given[MEMORY]))
    words = {given[key] for key in KEYS if key not in AMOUNTS and given.get(key)}
    assert {tag.word for tag in one.claim.tags} == words
    assert {tag.namespace for tag in one.claim.tags} <= {"default"}


FAMILIES = (Family(name="sharepods", make=_odd_annotations, judge=judge_annotations, share=4),)
