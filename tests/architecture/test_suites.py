"""The tests of a module are found by its name."""

import pytest

from kubeshare_py.domain.isolation import IsolationBackend
from tests.architecture.sources import FILES, ROOT, TESTS, text_of

#: Rooms in which a module is a subject of its own. `scheduling`, `framework` and `cluster` are
#: tested rule by rule, and a rule is kept by several modules together.
ROOMS = (
    "admission", "configuration", "dialects", "documents", "exporters", "inventory",
    "isolation", "leader_election", "manifests", "node_agent", "topology",
)  # fmt: skip
#: Smaller modules may be tested beside others.
MAX_LINES = 100
#: The modules whose tests have another name.
ELSEWHERE = {
    "admission/model_rules": "admission/test_label_rules",
    "dialects/dialect": "dialects/test_dialect_table",
    "dialects/stored_allocation": "dialects/test_allocation",
    "exporters/client_metrics": "exporters/test_scheduler_metrics",
    "inventory/card_annotation": "inventory/test_node_annotations",
    "inventory/hami/node_plugins": "inventory/hami/test_plugin_nodes",
    "manifests/admission": "admission/test_review",
    "manifests/pod_check": "programs/test_kubectl_check",
    "manifests/pod_templates": "programs/test_kubectl_check",
    "manifests/pods/inter_pod_fields": "manifests/pods/test_inter_pod",
    "manifests/pods/pod_fields": "manifests/test_events",
    "manifests/state_objects": "stories/test_state_group",
    "manifests/state_group": "edges/scheduler/state/test_state_api",
    "topology/cells_file": "topology/test_cells",
}
PACKAGE = ROOT / "kubeshare_py"
MODULES = [
    path.relative_to(PACKAGE).with_suffix("").as_posix()
    for path in FILES
    if path.is_relative_to(PACKAGE)
    and path.relative_to(PACKAGE).parts[0] in ROOMS
    and len(text_of(path).splitlines()) > MAX_LINES
]
SUITES = {path.relative_to(ROOT / "tests").with_suffix("").as_posix() for path in TESTS}


@pytest.mark.parametrize("module", MODULES)
def test_each_module_of_a_hundred_lines_has_tests_of_its_name(module: str) -> None:
    room, _, name = module.partition("/")
    names = {suite.rpartition("/")[2] for suite in SUITES if suite.startswith(f"{room}/")}
    assert f"test_{name.rpartition('/')[2]}" in names or module in ELSEWHERE


def test_what_is_tested_elsewhere_is_tested_there() -> None:
    assert ELSEWHERE.keys() <= {*MODULES}
    assert {*ELSEWHERE.values()} <= SUITES


@pytest.mark.parametrize("backend", IsolationBackend)
def test_each_isolation_back_end_has_tests_for_a_card_and_a_row_of_what_they_found(
    backend: IsolationBackend,
) -> None:
    assert f"gpu/test_{backend.label}" in SUITES
    page = (ROOT / "docs/isolation.md").read_text()
    _, _, found = page.partition("### Tried on a card")
    assert f"| `{backend}` |" in found.partition("\n## ")[0]
