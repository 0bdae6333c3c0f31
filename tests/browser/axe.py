"""axe-core, Deque's rules of accessibility, for the tests: from the npm registry, where npm is.

    python -m tests.browser.axe      fetch it into .browser/, checked by its hash

It is a tool of the tests and no part of any package; npm has it, and what PyPI has is of 2022.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
PLACE = Path(__file__).parents[2] / ".browser" / f"axe-{VERSION}.min.js"
ABSENT = "axe-core is not here: make browser fetches it where there is npm"


def main() -> int:
    """Fetch it unless it is there; the exit code."""
    npm = shutil.which("npm")
    if PLACE.exists():
        return 0
    if npm is None:
        print("axe-core's rules are not tried: there is no npm")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = (npm, "pack", "--silent", f"axe-core@{VERSION}")
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            print(f"axe-core's rules are not tried: npm cannot fetch it: {done.stderr.strip()}")
            return 0
        [archive] = Path(folder).glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != SHA512:
            print(f"axe-core {VERSION} has another hash than it had: {found}", file=sys.stderr)
            return 1
        with tarfile.open(archive) as files:
            script = files.extractfile("package/axe.min.js")
            assert script is not None
            PLACE.parent.mkdir(exist_ok=True)
            PLACE.write_bytes(script.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
