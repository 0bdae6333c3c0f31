"""Helm as tests run it; python -m tests.controlplane.helm writes deploy/kubeshare.yaml.

The plain manifests are what the chart renders for its default values, in kube-system.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.build import NOT_RUN, NoGo, build, kept
from tests.controlplane.shipped import MANIFESTS

CHART = MANIFESTS.with_name("chart") / "kubeshare"
RELEASE, NAMESPACE = "kubeshare", "kube-system"
_HEAD = """\
# kubeshare-scheduler without Helm: the chart's default values. Written by `make manifests`.
# Set the image to where you pushed it; docs/install.md says how.
"""


def helm(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it, built before; what it keeps goes to `home`, or nowhere."""
    folder = str(home or "/nonexistent")
    places = {f"HELM_{place}_HOME": f"{folder}/{place}" for place in ("CACHE", "CONFIG", "DATA")}
    command = [str(kept("helm")), *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, **places}
    )


def template(*arguments: str | Path) -> str:
    """What the chart renders with these further arguments. Raises CalledProcessError."""
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    done.check_returncode()
    return done.stdout


def plain_manifests() -> str:
    """What deploy/kubeshare.yaml says."""
    return _HEAD + template()


def main() -> int:
    """Write the file."""
    try:
        build(["helm"])
    except NoGo as error:
        print(f"not run: {error}", file=sys.stderr)
        return NOT_RUN
    MANIFESTS.write_text(plain_manifests())
    return 0


if __name__ == "__main__":
    sys.exit(main())
