"""The threat model, by role: each row says what stops a threat; threats.toml has its tests."""

import re
import tomllib

import pytest

from tests.architecture.sources import ROOT
from tests.each import each

MANUAL = (ROOT / "docs/security.md").read_text()
ROLES = (
    *("Pod owner", "Namespace admin", "Node", "Metrics writer", "Reader"),
    *("The scheduler's token", "The webhook's token"),
)
#: What is said of each role, by its name.
SECTIONS = {role: MANUAL.split(f"\n## {role}\n")[1].split("\n## ")[0] for role in ROLES}
#: Role, threat, what more is said of it, what stops it.
ROWS = [
    (role, *row)
    for role, section in SECTIONS.items()
    for row in re.findall(r"^\| \*\*(.+?)\*\*(.*?) \| (.+?) \|$", section, re.MULTILINE)
]
#: What shows each row, by role and threat: tests, or why there are none.
SHOWN = tomllib.loads((ROOT / "tests/attacks/threats.toml").read_text())
NAMED = sorted(
    {
        test
        for rows in SHOWN.values()
        for shown in rows.values()
        if isinstance(shown, list)
        for test in shown
    }
)
#: Both lines above the rows of a table.
HEAD = re.compile(r"^\| what can be tried[^|]* \| what stops it \|\n\| --- \| --- \|$")
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


def test_each_row_has_tests_or_a_reason_why_it_has_none() -> None:
    assert {role: sorted(rows) for role, rows in SHOWN.items()} == {
        role: sorted(name for one, name, *_ in ROWS if one == role) for role in ROLES
    }
    assert all(shown for rows in SHOWN.values() for shown in rows.values())


@pytest.mark.parametrize("test", NAMED)
def test_every_test_that_shows_a_row_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    text = (ROOT / "tests" / file).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)


def test_readers_of_the_page_need_no_test_to_understand_it() -> None:
    assert re.findall(r"`tests/\S+::\S+`", MANUAL) == []


def test_lines_of_prose_can_be_read_in_a_terminal() -> None:
    long = [line for line in MANUAL.splitlines() if len(line) > LONGEST_LINE]
    assert all(line.startswith("| ") for line in each(long))
