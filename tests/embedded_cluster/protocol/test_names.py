"""Names as a Kubernetes API server checks them."""

from collections.abc import Callable

import pytest

from kubeshare_py.embedded_cluster.protocol.names import (
    label_1035_problem,
    label_problem,
    qualified_problem,
    subdomain_problem,
)


@pytest.mark.parametrize(
    "problem", [label_problem, label_1035_problem, subdomain_problem, qualified_problem]
)
def test_a_newline_at_the_end_is_refused(problem: Callable[[str], str]) -> None:
    assert problem("abc") == ""
    assert problem("abc\n") != ""
