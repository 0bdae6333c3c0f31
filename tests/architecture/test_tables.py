"""Tables of the documents look as GitHub shows them: https://github.github.com/gfm/#tables-extension-"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
#: Not escaped: a bar within backticks ends a cell as well.
BAR = re.compile(r"(?<!\\)\|")


def tables(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines that follow each other and begin with a bar, and the number of the first; no code."""
    found: list[str] = []
    in_code = False
    for number, line in enumerate([*page.read_text().splitlines(), ""], 1):
        in_code ^= line.lstrip().startswith("```")
        if line.startswith("|") and not in_code:
            found.append(line)
        elif found:
            yield number - len(found), found
            found = []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_table_has_a_head_and_rows_of_its_width(page: Path) -> None:
    for number, rows in tables(page):
        where = f"{page.name}:{number}"
        assert len(rows) > 2, f"{where}: a row by itself: is there an empty line before it?"
        assert re.fullmatch(r"\|( :?-+:? \|)+", rows[1]), f"{where}: no line below the head"
        widths = [len(BAR.findall(row)) for row in rows]
        assert set(widths) == {widths[0]}, f"{where}: rows of {sorted(set(widths))} bars"
