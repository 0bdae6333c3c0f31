"""Code of a page of docs/, and its commands run as a user at the project's folder runs them."""

import os
import re
import subprocess
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.controlplane.build import kept
from tests.controlplane.running import ControlPlane


def blocks(page: str, language: str) -> list[str]:
    """The page's code in this language, in order, without its indentation."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def run(script: str, plane: ControlPlane, folder: Path) -> str:
    """What the script prints; it must not fail."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, program in (("kubectl", plane.kubectl), ("helm", kept("helm"))):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(program)
    (folder / "deploy").unlink(missing_ok=True)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    variables = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(folder),
    }
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
