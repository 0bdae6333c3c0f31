"""The threat model: each threat says what stops it and names tests that there are."""

import re

import pytest

from tests.architecture.test_house_style import ROOT

MANUAL = (ROOT / "docs/security.md").read_text()
SECTION = MANUAL.split("## The threats\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| \*\*(.+?)\*\*(.*?) \| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE)
#: Where a test is, and its name.
NAMED = re.findall(r"`(tests/\S+?\.py)::(\w+)`", MANUAL)
THREATS = {
    *("Forged annotation", "Forged environment", "Direct nodeName", "Ephemeral container"),
    *("Image default", "hostPath to /dev", "Privileged", "Priority label", "Forged metrics"),
    *("Forged Lease", "Stolen token of a node"),
}


def test_every_threat_has_its_row() -> None:
    names = [name for name, *_ in ROWS]
    assert {*names} >= THREATS
    assert len(names) == len({*names}) == SECTION.count("\n| ") - 2


@pytest.mark.parametrize("row", ROWS, ids=[name for name, *_ in ROWS])
def test_each_says_what_stops_it_or_that_nothing_here_does_and_names_its_tests(
    row: tuple[str, str, str, str],
) -> None:
    _, _, stopped_by, tests = row
    assert stopped_by
    assert re.fullmatch(r"`tests/\S+?\.py::\w+`(, `tests/\S+?\.py::\w+`)*", tests)


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_test_that_is_named_is_there(file: str, name: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)
