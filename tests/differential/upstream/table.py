"""The table of kube-scheduler's tests in the documentation: python -m tests.differential.upstream.

It prints the rows; with --write they replace those of docs/compatibility.md.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.differential.upstream.reading import UpstreamFile, upstream_files

PAGE = Path(__file__).parents[3] / "docs/compatibility.md"
#: What the table begins and ends with on its page.
BEGINS, ENDS = "| file | cases | expressed | hold |", "\n\n"


def table(files: Iterable[UpstreamFile]) -> str:
    """The table in Markdown, with the sums in its last row."""
    rows = [*map(_row, files)]
    sums = [sum(numbers) for numbers in zip(*(row[1] for row in rows), strict=True)]
    lines = [f"{BEGINS} the others |", "| --- | --- | --- | --- | --- |"]
    lines += [_line(f"`{path}`", numbers, why) for path, numbers, why in rows]
    return "\n".join([*lines, _line("all", sums, "")])


def _row(file: UpstreamFile) -> tuple[str, tuple[int, int, int], str]:
    holding = sum(not one.differs for one in file.expressed)
    return file.path, (file.count, len(file.expressed), holding), "; ".join(_others(file))


def _others(file: UpstreamFile) -> Iterator[str]:
    for why, count in file.left.items():
        yield f"{count} {why}"
    for one in file.expressed:
        if one.differs:
            yield f"`{one.test}: {one.name}` {one.differs}"


def _line(name: str, numbers: Iterable[int], why: str) -> str:
    cells = [name, *map(str, numbers), why]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells).rstrip() + " |"


def written() -> str:
    """The table that the page has."""
    page = PAGE.read_text()
    begins = page.index(BEGINS)
    return page[begins : page.index(ENDS, begins)]


def main() -> None:
    """Print the table, or put it into its page."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.upstream")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    found = table(upstream_files())
    if parser.parse_args().write:
        PAGE.write_text(PAGE.read_text().replace(written(), found))
    else:
        print(found)
