"""What pods' owners write is remembered within bounds in bytes."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kubeshare_py"
ROOMS = ("dialects", "manifests", "domain", "framework", "scheduling")
#: Their arguments come from the inventory, or from this program.
NOT_OF_PODS = {
    "domain/remembered.py",
    "domain/card_reading.py",
    "manifests/json_paths.py",
    "manifests/watch.py",
}


def test_functions_of_what_pods_say_are_remembered_by_weight() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        if re.search(r"\blru_cache\b|\bcache\b,?$|import cache\b", path.read_text(), re.MULTILINE)
    }
    assert found - NOT_OF_PODS == set()
