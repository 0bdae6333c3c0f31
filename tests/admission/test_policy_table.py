from kubeshare_py.admission.policy_table import injections, template
from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.isolation.containers import injection
from tests.controlplane.chart_tables import PLUGINS, TEMPLATE, plugins


def test_the_charts_tables_are_those_of_the_code() -> None:
    assert TEMPLATE.read_text() == template(), "out of date: make manifests"
    assert PLUGINS.read_text() == plugins(), "out of date: make manifests"


def test_a_pods_column_is_its_reach_or_that_of_its_back_end() -> None:
    table = injections()
    for reach in CardVisibility:
        for backend in IsolationBackend:
            column = backend if reach is CardVisibility.SHARE else reach
            assert table[column] == injection(reach, backend)


def test_no_back_end_is_named_like_a_reach() -> None:
    assert not {*CardVisibility} & {*IsolationBackend}


def test_the_first_of_a_profile_is_taken_in_cel_as_in_python() -> None:
    # templates/_choices.tpl says allowed[0].
    assert IsolationChoice(tuple(IsolationBackend)).chosen("") is next(iter(IsolationBackend))
