"""Pages that people read: lines that fit a screen, and sentences that name what they are about."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import each

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WIDTH = 120
README_LINES = 110
#: A line that is a link and no more cannot be broken.
LINK = re.compile(r"\s*(?:[-*] )?!?\[[^\]]*\]\([^)]*\)[.,;:]?")
#: Words for people, where a page means a pod, a node, a plugin or a client: that noun is clearer.
VAGUE = re.compile(r"\b(?:nobody|somebody|anybody|whoever|is told|are told)\b", re.IGNORECASE)
#: Code, quoted words and targets of links may have them, such as names of tests and old values.
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|\]\([^)]*\)")

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


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "GLOSSARY.md"], ids=lambda page: page.stem
)
def test_sentences_name_what_they_are_about(page: Path) -> None:
    vague = [
        f"{page.name}:{number}: {found[0]}"
        for number, line in lines(page)
        for found in VAGUE.finditer(QUOTED.sub("", line))
    ]
    assert vague == []


def anchors(page: Path) -> set[str]:
    """Names by which GitHub links to the headings of the page: lower case, dashes for spaces."""
    headings = [line.lstrip("# ") for _, line in lines(page) if line.startswith("#")]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in plain}


@every_page
def test_every_link_leads_to_a_heading_that_is_there(page: Path) -> None:
    text = " ".join(line for _, line in lines(page))
    for target, name in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text):
        there = page.parent / target if target else page
        assert name in anchors(there), f"{page.name}: {target}#{name}"


def test_the_readme_is_read_at_a_sitting() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = set(re.findall(r"\]\(([^)#]+)\)", index.read_text()))
    pages = {str(page.relative_to(index.parent)) for page in index.parent.rglob("*.md")}
    assert {page for page in pages if "decisions" not in page} - linked == {"README.md"}


def test_each_decision_has_a_number_of_its_own_and_its_heading_says_it() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [page.name.partition("-")[0] for page in pages]
    assert sorted(set(numbers)) == numbers
    for page, number in each(zip(pages, numbers, strict=True)):
        assert page.read_text().startswith(f"# {number}: "), page.name


def test_every_path_that_contributors_are_shown_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    made = r"\]\([^)]*\)|https?:\S+|\.venv/\S+"  # links have tests of their own
    shown = re.findall(r"(?<![\w.~$/-])[\w.]+/[\w./-]*", re.sub(made, "", text))
    assert len(shown) > 20
    missing = [
        path
        for path in (one.rstrip(".") for one in shown)
        if not (ROOT / path).exists() and not (ROOT / "kubeshare_py" / path).exists()
    ]
    assert missing == []
