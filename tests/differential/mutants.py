"""Show that the comparison can fail: python -m tests.differential.mutants [plugin ...].

Each mutant is this scheduler with one line of one plugin changed, in a copy. Cases are compared
until one differs. Printed is a table of the mutants, the first case that caught each, and how.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("kubeshare_py", "plugins", "tests")
_SEED, _CASES = 20261123, 3000


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` occurs once in the file, and becomes `new`; the cases are about these subjects."""

    plugin: str
    file: str
    old: str
    new: str
    subjects: tuple[str, ...] = ()


def mutants() -> list[Mutant]:
    """Those in mutants.json, in its order."""
    written = json.loads(Path(__file__).with_name("mutants.json").read_text())
    return [
        Mutant(one["plugin"], one["file"], one["old"], one["new"], tuple(one.get("subjects", ())))
        for one in written
    ]


def caught(mutant: Mutant) -> str:
    """The first case that differs, and the kind of its difference; "" if none does."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        changed = copy / mutant.file
        text = changed.read_text()
        if text.count(mutant.old) != 1:
            raise LookupError(
                f"{mutant.file}: {mutant.old!r} is there {text.count(mutant.old)} times"
            )
        changed.write_text(text.replace(mutant.old, mutant.new))
        paths = os.pathsep.join(str(copy / name) for name in ("", "plugins"))
        command = [sys.executable, "-m", "tests.differential", "--first"]
        command += ["--seed", str(_SEED), "--cases", str(_CASES)]
        for subject in mutant.subjects:
            command += ["--about", subject]
        environment = {**os.environ, "PYTHONPATH": paths}
        done = subprocess.run(
            command, cwd=copy, env=environment, check=False, capture_output=True, text=True
        )
        found = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
        if not found and done.returncode:
            raise RuntimeError(done.stderr)
        return found[0].removeprefix("differs: ") if found else ""


def main(plugins: list[str]) -> int:
    """0 if every mutant is caught."""
    missed = 0
    for mutant in mutants():
        if plugins and mutant.plugin not in plugins:
            continue
        how = caught(mutant)
        missed += not how
        change = f"`{mutant.old.strip()}` → `{mutant.new.strip()}`".replace("|", "\\|")
        print(f"| {mutant.plugin} | {change} | {how or 'not caught'} |", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
