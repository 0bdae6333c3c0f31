"""What a suite has beside it: tests on a real card with what these found, and texts in files."""

import pytest

from kubeshare_py.domain.card_reading import IsolationBackend
from tests.architecture.sources import ROOT, TESTS, text_of

SUITES = {path.relative_to(ROOT / "tests").with_suffix("").as_posix() for path in TESTS}


@pytest.mark.parametrize("backend", IsolationBackend)
def test_each_isolation_back_end_has_tests_for_a_card_and_a_row_of_what_they_found(
    backend: IsolationBackend,
) -> None:
    assert f"gpu/test_{backend.label}" in SUITES
    page = (ROOT / "docs/isolation.md").read_text()
    _, _, found = page.partition("### Tried on a card")
    assert f"| `{backend}` |" in found.partition("\n## ")[0]


def test_each_golden_text_is_that_of_a_test() -> None:
    """`tests.making.golden` writes what tests make, and takes nothing away."""
    kept = sorted((ROOT / "tests").rglob("golden/*.txt"))
    names = {
        path: f'"{path.parent.parent.relative_to(ROOT / "tests")}/{path.stem}"' for path in kept
    }
    tests = "".join(map(text_of, TESTS))
    assert [path for path, name in names.items() if name not in tests] == []
