"""Long texts that people read, each in a file beside the tests that make it.

`python -m tests.making.golden tests/terminal` runs these tests and writes the files anew; their
difference is then reviewed like code.
"""

import os
import sys
from difflib import unified_diff
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
#: Set in the environment of a run that writes the files.
_WRITE = "KUBESHARE_WRITE_GOLDEN"


def expect_golden(name: str, text: str | list[str]) -> None:
    """Fail with the difference unless the text, or its lines, are those of the file `name`.

    "terminal/gpus" is tests/terminal/golden/gpus.txt; a line break at the end is not compared.
    """
    lines = text.removesuffix("\n").split("\n") if isinstance(text, str) else text
    room, _, file = name.rpartition("/")
    path = TESTS / room / "golden" / f"{file}.txt"
    if _WRITE in os.environ:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    changes = unified_diff(kept.split("\n"), [*lines, ""], str(path), "now", lineterm="")
    if difference := "\n".join(changes):
        pytest.fail(f"{difference}\nTo keep it: python -m tests.making.golden", pytrace=False)


def main() -> int:
    """Run the tests that the arguments name, writing."""
    os.environ[_WRITE] = "1"
    return int(pytest.main(["--quiet", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
