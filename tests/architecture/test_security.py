"""The threat model, by role: each row says what stops a threat and names tests that there are."""

import re

import pytest

from tests.architecture.sources import ROOT

MANUAL = (ROOT / "docs/security.md").read_text()
ROLES = (
    *("Pod owner", "Namespace admin", "Node", "Metrics writer", "Reader"),
    *("The scheduler's token", "The webhook's token"),
)
#: What is said of each role, by its name.
SECTIONS = {role: MANUAL.split(f"\n## {role}\n")[1].split("\n## ")[0] for role in ROLES}
#: Role, threat, what more is said of it, what stops it, its tests.
ROWS = [
    (role, *row)
    for role, section in SECTIONS.items()
    for row in re.findall(r"^\| \*\*(.+?)\*\*(.*?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
]
#: Where a test is, and its name.
NAMED = sorted({*re.findall(r"`(tests/\S+?\.py)::(\w+)`", MANUAL)})
#: Both lines above the rows of a table.
HEAD = re.compile(
    r"^\| what can be tried[^|]* \| what stops it \| tests \|\n\| --- \| --- \| --- \|$"
)
THREATS = {
    *("Forged annotation", "Forged environment", "Direct nodeName", "Ephemeral container"),
    *("Image default", "hostPath to /dev", "Privileged", "Priority label", "Forged metrics"),
    *("Forged Lease", "Stolen token of a node's kubelet", "Stolen token of a collector"),
}
LONGEST_LINE = 120


def test_every_threat_has_its_row() -> None:
    names = [name for _, name, *_ in ROWS]
    assert {*names} >= THREATS
    assert len(names) == len({*names})


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_tables_of_such_rows_and_no_others(role: str) -> None:
    lines = [line for line in SECTIONS[role].splitlines() if line.startswith("|")]
    heads = len(re.findall(HEAD.pattern, "\n".join(lines), re.MULTILINE))
    rows = sum(one == role for one, *_ in ROWS)
    assert heads
    assert rows
    assert len(lines) == 2 * heads + rows


@pytest.mark.parametrize("row", ROWS, ids=[name for _, name, *_ in ROWS])
def test_each_says_what_stops_it_and_names_tests_or_says_why_there_are_none(
    row: tuple[str, str, str, str, str],
) -> None:
    *_, stopped_by, tests = row
    assert stopped_by
    assert re.fullmatch(r"`tests/\S+?\.py::\w+`(, `tests/\S+?\.py::\w+`)*|none: \S.+", tests)


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_test_that_is_named_is_there(file: str, name: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)


def test_lines_of_prose_can_be_read_in_a_terminal() -> None:
    long = [line for line in MANUAL.splitlines() if len(line) > LONGEST_LINE]
    assert all(line.startswith("| ") for line in long)
