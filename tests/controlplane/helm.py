"""Helm as tests run it; python -m tests.controlplane.helm writes deploy/kubeshare.yaml.

The plain manifests are what the chart renders for its default values, in kube-system, for the
oldest release of Kubernetes that has MutatingAdmissionPolicy.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.build import NOT_RUN, NoGo, build, kept, kubernetes_version
from tests.controlplane.shipped import MANIFESTS

CHART = MANIFESTS.with_name("chart") / "kubeshare"
RELEASE, NAMESPACE = "kubeshare", "kube-system"
#: The first release with MutatingAdmissionPolicy.
PLAIN_FOR = "v1.36.0"
_HEAD = f"""\
# kubeshare-scheduler without Helm: the chart's default values. Written by `make manifests`.
# Set the image to where you pushed it; docs/install.md says how.
#
# Rendered for Kubernetes {PLAIN_FOR[1:]} and newer, with admission.by: policy. Older clusters do
# not have MutatingAdmissionPolicy and take the webhook instead; render it for yours, here 1.33:
#   helm template {RELEASE} deploy/chart/kubeshare --namespace {NAMESPACE} --kube-version 1.33.0
"""


def helm(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it, built before; what it keeps goes to `home`, or nowhere."""
    folder = str(home or "/nonexistent")
    places = {f"HELM_{place}_HOME": f"{folder}/{place}" for place in ("CACHE", "CONFIG", "DATA")}
    command = [str(kept("helm")), *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, **places}
    )


def template(*arguments: str | Path, kubernetes: str | None = None) -> str:
    """What the chart renders with these further arguments, for this release of Kubernetes.

    Without one it is the release that is built. Raises CalledProcessError.
    """
    release = f"--kube-version={kubernetes or kubernetes_version()}"
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, release, *arguments)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    done.check_returncode()
    return done.stdout


def plain_manifests() -> str:
    """What deploy/kubeshare.yaml says."""
    return _HEAD + template(kubernetes=PLAIN_FOR)


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
