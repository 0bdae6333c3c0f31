"""Pages that people read: lines that fit a screen, and sentences that name what they are about."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("[!A]*.md"), *ROOT.glob("docs/**/*.md")])
WIDTH = 120
#: A line that is a link and no more cannot be broken.
LINK = re.compile(r"\s*(?:[-*] )?!?\[[^\]]*\]\([^)]*\)[.,;:]?")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def lines(page: Path) -> Iterator[tuple[int, str]]:
    """Lines of the page with their numbers, those of code blocks apart."""
    in_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        if not in_code and not fence:
            yield number, line


@every_page
def test_no_line_is_wider_than_a_screen(page: Path) -> None:
    long = [
        f"{page.name}:{number}: {len(line)} columns"
        for number, line in lines(page)
        if len(line) > WIDTH and not line.startswith("|") and not LINK.fullmatch(line)
    ]
    assert long == [], "\n".join(long)
