"""kube-scheduler's own tests, as cases: what each expects, this scheduler and kube-scheduler do."""

import re
import subprocess
from pathlib import Path

import pytest

from kubeshare_py.domain.values import replace
from tests.controlplane.build import ORACLE_MODULE
from tests.differential import ours
from tests.differential.answers import Candidate, CaseAnswer, of_oracle
from tests.differential.comparison import differences
from tests.differential.kube_scheduler import KubeScheduler, OracleError, built
from tests.differential.upstream.expectations import Expectation
from tests.differential.upstream.objects import budget, node, pod
from tests.differential.upstream.reading import (
    FOLDER,
    UpstreamCase,
    WakingCase,
    files_of,
    upstream_files,
)
from tests.differential.upstream.selectors import node_term, pod_term, spread_constraint
from tests.differential.upstream.table import table, written
from tests.differential.upstream.waking import before_and_after, bound

WRITTEN = sorted(FOLDER.glob("*.yaml"))
#: What Go joins, and what is between words.
_JOINED, _SPACES = re.compile(r'"\s*\+\s*"'), re.compile(r"\s")


#: Those with pods that wait for a change.
WITH_WAKING = [path for path in WRITTEN if "waiting: " in path.read_text()]


def waking_of(path: Path) -> list[WakingCase]:
    return [one for file in files_of(path) for one in file.waking]


def cases_of(path: Path) -> list[UpstreamCase]:
    return [one for file in files_of(path) for one in file.cases]


@pytest.mark.slow
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_this_scheduler_does_what_the_tests_of_kube_scheduler_expect(path: Path) -> None:
    found = {
        f"{one.test}: {one.name}": one.expected.contradictions(ours.answer(one.case))
        for one in cases_of(path)
        if not one.differs
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_WAKING, ids=lambda path: path.stem)
def test_this_scheduler_binds_what_fits_after_a_change(path: Path) -> None:
    found = {f"{one.test}: {one.name}": (bound(one), one.binds) for one in waking_of(path)}
    assert {name: at_once for name, ((at_once, _), _) in found.items() if at_once} == {}
    assert {name: both for name, (both, binds) in found.items() if both[1] != binds} == {}
    assert [one.name for one in waking_of(path) if not one.binds <= one.wakes] == []


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_case_that_is_said_to_differ_does(path: Path) -> None:
    holding = [
        one.name
        for one in cases_of(path)
        if one.differs and not one.expected.contradictions(ours.answer(one.case))
    ]
    assert holding == []


@pytest.mark.real_only("asks kube-scheduler's plugins, which are built with Go")
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_kube_scheduler_does_what_the_cases_expect(path: Path) -> None:
    found = {}
    cases = cases_of(path)
    with KubeScheduler(built()) as oracle:
        for one, said in zip(cases, oracle.answers([one.case for one in cases]), strict=True):
            assert not isinstance(said, OracleError), f"{one.name}: {said}"
            wrong = one.expected.contradictions(of_oracle(said))
            if not one.differs:
                wrong += [
                    str(other) for other in differences(of_oracle(said), ours.answer(one.case))
                ]
            found[f"{one.test}: {one.name}"] = wrong
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.real_only("asks kube-scheduler's plugins, which are built with Go")
@pytest.mark.parametrize("path", WITH_WAKING, ids=lambda path: path.stem)
def test_the_pods_that_fit_after_a_change_fit_for_kube_scheduler_too(path: Path) -> None:
    found = []
    with KubeScheduler(built()) as oracle:
        for one in waking_of(path):
            for waiting in one.waiting:
                name = waiting["metadata"]["name"]
                both = map(oracle.answer, before_and_after(one, waiting))
                before, after = (bool(of_oracle(said).feasible) for said in both)
                if before or after != (name in one.binds):
                    found.append(f"{one.name}: {name}")
    assert found == []


@pytest.mark.real_only("reads kube-scheduler's tests, which Go has downloaded")
def test_every_case_has_the_name_of_one_of_kube_schedulers() -> None:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]
    done = subprocess.run(
        command, cwd=ORACLE_MODULE, check=True, capture_output=True, text=True, timeout=120
    )
    module = Path(done.stdout.strip())
    unknown = []
    for file in upstream_files():
        text = _SPACES.sub("", _JOINED.sub("", (module / file.path).read_text()))
        for one in file.expressed:
            name, test = (_SPACES.sub("", given) for given in (one.name, one.test))
            tests = f"func{test}(", f'"{test}"', f"var{test}="
            if name not in text.replace('\\"', '"') or not any(given in text for given in tests):
                unknown.append(f"{file.path} {one.test}: {one.name}")
    assert unknown == []


def test_the_table_of_the_documentation_is_that_of_the_cases() -> None:
    assert written() == table(upstream_files())


FOUND = CaseAnswer(
    nodes=frozenset({"a", "b"}),
    filters={"NodePorts": {"b": (("busy",), True)}},
    feasible=frozenset({"a"}),
    scores={"ImageLocality": {"a": 5}},
    message="m",
)
PREEMPTING = CaseAnswer(
    nodes=frozenset({"a"}), preempted=(Candidate(node="a", victims=("default/v",)),)
)


@pytest.mark.parametrize(
    ("answer", "expected", "holds"),
    [
        (FOUND, Expectation(plugin="NodePorts", refuses={"b": (("busy",), True)}), True),
        (FOUND, Expectation(plugin="NodePorts", refuses={"b": (("busy",), False)}), False),
        (FOUND, Expectation(plugin="NodePorts", refuses={}), False),
        (FOUND, Expectation(fits=frozenset({"a"})), True),
        (FOUND, Expectation(fits=frozenset({"a", "b"})), False),
        (FOUND, Expectation(plugin="ImageLocality", scores={"a": 6}), True),
        (FOUND, Expectation(plugin="ImageLocality", scores={"a": 6, "b": 5}), False),
        (FOUND, Expectation(plugin="ImageLocality", best=frozenset({"a"})), True),
        (FOUND, Expectation(plugin="ImageLocality", best=frozenset({"a", "b"})), False),
        (FOUND, Expectation(preempts={}), True),
        (FOUND, Expectation(preempts={"a": frozenset({"default/v"})}), False),
        (PREEMPTING, Expectation(preempts={"a": frozenset({"default/v"})}), True),
        (PREEMPTING, Expectation(preempts={"a": frozenset({"default/w"})}), False),
        (PREEMPTING, Expectation(preempts={}), False),
        (FOUND, Expectation(message="m"), True),
        (FOUND, Expectation(message="n"), False),
        (replace(FOUND, unsupported=("spec.x",)), Expectation(), False),
    ],
)
def test_an_answer_that_is_not_as_expected_is_noticed(
    answer: CaseAnswer, expected: Expectation, holds: bool
) -> None:
    assert bool(expected.contradictions(answer)) is not holds


def test_lines_become_objects() -> None:
    made = pod(
        {
            "pod": "p app=web on n in red priority 5 asks cpu=1 and cpu=2 init cpu=3"
            " tolerates a=b:NoSchedule c ports 10.0.0.1:80/UDP wants disk=ssd",
            "apart": ["app in (a, b), !old by zone; namespaces=x where=team=a"],
        }
    )
    spec = made["spec"]
    assert made["metadata"]["namespace"] == "red"
    assert spec["nodeName"] == "n"
    assert [one["resources"]["requests"]["cpu"] for one in spec["containers"]] == ["1", "2"]
    assert spec["initContainers"][0]["resources"]["requests"] == {"cpu": "3"}
    assert spec["tolerations"] == [
        {"operator": "Equal", "key": "a", "value": "b", "effect": "NoSchedule"},
        {"operator": "Exists", "key": "c"},
    ]
    assert spec["containers"][0]["ports"][0]["hostIP"] == "10.0.0.1"
    (term,) = spec["affinity"]["podAntiAffinity"].popitem()[1]
    assert term["topologyKey"] == "zone"
    assert term["labelSelector"]["matchExpressions"][0]["values"] == ["a", "b"]
    assert term["namespaces"] == ["x"]
    assert term["namespaceSelector"]["matchExpressions"][0]["key"] == "team"


def test_selectors_and_amounts_become_objects() -> None:
    assert pod_term("* by zone")["labelSelector"] == {}
    assert "labelSelector" not in pod_term("- by zone")
    assert node_term("size>5")["matchExpressions"][0]["operator"] == "Gt"
    assert [*node_term("metadata.name in (n)")] == ["matchFields"]
    assert spread_constraint("2 softly by zone of app; min=3")["minDomains"] == 3
    assert node("n a=b has cpu=1 tainted k=v:NoSchedule")["status"]["allocatable"] == {
        **{"pods": "110", "cpu": "1"}
    }
    assert budget("b allows 1 for app=web without p,q")["status"]["disruptedPods"].keys() == {
        *("p", "q")
    }
