"""Many cases are put to kube-scheduler's own plugins; `make differential` asks any number."""

import pytest

from tests.differential.kube_scheduler import built
from tests.differential.running import CaseRange, run
from tests.scale import scaled

_CASES, _SEED = scaled(20_000, 2_000), 20261123


@pytest.mark.real_only("asks kube-scheduler's plugins, which are built with Go")
def test_no_answer_differs_from_kube_schedulers() -> None:
    tally = run(built(), CaseRange(seed=_SEED, first=0, count=_CASES))
    assert tally.differing == []
    assert tally.counts["cases"] == _CASES
    assert tally.counts["kube-scheduler fails"] < _CASES // 100
    for outcome in ("feasible", "infeasible", "with victims"):
        assert tally.counts[outcome] > _CASES // 100, outcome
