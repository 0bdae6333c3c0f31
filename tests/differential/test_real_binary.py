"""Cases go through an API server, and the real kube-scheduler decides: node, message, victims.

The same objects, as the API server returns them, are put to the oracle and to this scheduler.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.differential.answers import CaseAnswer, of_oracle
from tests.differential.generator.cases import SUBJECTS, case
from tests.differential.kube_scheduler import KubeScheduler, OracleError, built
from tests.differential.real_cluster import Decision, Json, RealCluster, real_cluster
from tests.differential.running import compared
from tests.scale import scaled

pytestmark = pytest.mark.real_only("it needs the real kube-scheduler and an API server")
_CASES, _SEED = scaled(3000, 300), 36
#: Put to the oracle alone: device claims need objects that are not made here, and the API server
#: refuses fields of features that are alpha.
_SUBJECTS = SUBJECTS.keys() - {"devices", "features"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("differential")) as running:
        yield running


@pytest.fixture(scope="module")
def oracle(program: Path) -> Iterator[KubeScheduler]:
    with KubeScheduler(program) as running:
        yield running


@pytest.fixture(scope="module")
def program() -> Path:
    return built()


def leaving(asked: Json) -> frozenset[str]:
    """The pods that are being deleted: kube-scheduler tells these nothing when they are victims."""
    pods = (one["metadata"] for one in asked["objects"] if one["kind"] == "Pod")
    return frozenset(
        f"{one['namespace']}/{one['name']}" for one in pods if "deletionTimestamp" in one
    )


def agrees(gone: frozenset[str], expected: CaseAnswer, found: Decision) -> bool:
    """Whether kube-scheduler decided what its plugins say; of `gone` no condition tells."""
    if expected.feasible:
        # A pod whose claims wait for a provisioner, of which there is none, is nominated only.
        return (found.node or found.nominated) in expected.chosen
    if not expected.preempted:
        return found.message == expected.message
    victims = {one.node: {*one.victims} - gone for one in expected.preempted}
    return found.message == expected.message and {*found.victims} == victims.get(found.nominated)


def test_the_real_kube_scheduler_decides_the_same(
    cluster: RealCluster, oracle: KubeScheduler
) -> None:
    outcomes: Counter[str] = Counter()
    for index in range(_CASES):
        asked = cluster.put(case(_SEED, index, _SUBJECTS), index)
        try:
            expected = of_oracle(oracle.answer(asked))
        except OracleError:
            outcomes["kube-scheduler fails"] += 1
            cluster.clear()
            continue
        decided = cluster.decision(asked, partial(agrees, leaving(asked), expected))
        agreed = agrees(leaving(asked), expected, decided)
        assert agreed, f"case {index}: {decided}, not {expected}"
        differing = compared(asked, expected)[1]
        assert not differing, f"case {index}: {differing}"
        outcomes["bound" if decided.node else "preempts" if decided.nominated else "waits"] += 1
        cluster.clear()
    assert outcomes["kube-scheduler fails"] < _CASES // 50
    assert min(outcomes["bound"], outcomes["waits"], outcomes["preempts"]) > _CASES // 100
