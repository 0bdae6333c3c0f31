"""Named cases with what kube-scheduler said of them: differences that were found, and others.

`python -m tests.differential --seed 1 --case 7 --record NAME` writes one.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FOLDER = Path(__file__).with_name("recorded")


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """A case, and the oracle's answer to it."""

    name: str
    case: Json
    said: Json


def record(name: str, case: Json, said: Json) -> Path:
    """Write a case down; the file."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps({"case": case, "said": said}, indent=1, sort_keys=True) + "\n")
    return file


def recorded() -> list[RecordedCase]:
    """All that were written down, by name."""
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        written = json.loads(file.read_text())
        found.append(RecordedCase(file.stem, written["case"], written["said"]))
    return found
