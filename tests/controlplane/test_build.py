"""The builder where nothing can be built, and where nothing has to be."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.build import (
    NEEDED,
    NOT_RUN,
    OWN_MODULES,
    helm_version,
    kubernetes_version,
)

ROOT = Path(__file__).parents[2]


def built(cache: Path, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.controlplane.build"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "KUBESHARE_CONTROLPLANE_CACHE": str(cache)},
        check=False,
        capture_output=True,
        text=True,
    )


def test_without_go_it_says_in_one_line_which_one_is_needed(tmp_path: Path) -> None:
    done = built(tmp_path, path="/nowhere")
    assert done.returncode == NOT_RUN
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"not run: Kubernetes {kubernetes_version()} needs Go 1.")


def test_a_go_that_is_too_old_is_named(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.22.3\n")
    go.chmod(0o755)
    done = built(tmp_path / "cache", path=str(tmp_path))
    assert done.returncode == NOT_RUN
    (line,) = done.stderr.splitlines()
    assert line.endswith("; found 1.22.3")


def test_what_was_built_before_needs_no_go(tmp_path: Path) -> None:
    kept = tmp_path / kubernetes_version()
    kept.mkdir()
    for name in (*NEEDED, "kube-scheduler"):
        (kept / name).touch()
    helm = tmp_path / f"helm-{helm_version()}"
    helm.mkdir()
    (helm / "helm").touch()
    for name in OWN_MODULES:
        own = tmp_path / build.kept(name).parent.name
        own.mkdir()
        (own / name).touch()
    done = built(tmp_path, path="/nowhere")
    assert (done.returncode, done.stdout.strip()) == (0, str(kept))


#: Says that it is new, and fails when it runs twice at once, or for a program that is there.
GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
while [ "$1" != -o ]; do shift; done
cd {folder} && mkdir busy && mkdir "$(basename "$2")" && echo binary > "$2" && rmdir busy
"""
#: Of what a build says on its way.
LINE = r"building with Go, once: .*About \d+ minutes|building \S+ for .* \(\d+ of \d+\) ...$"


@pytest.mark.slow
def test_two_that_build_at_once_take_turns_and_build_each_program_once(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(GO.format(folder=tmp_path))
    go.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    build_all = partial(built, tmp_path / "cache", path=path)
    with ThreadPoolExecutor() as both:
        for one in [both.submit(build_all) for _ in range(2)]:
            done = one.result()
            assert done.returncode == 0, done.stderr
            # The one that started later finds the first program, or all of them, built already.
            assert all(re.match(LINE, line) for line in done.stderr.splitlines()), done.stderr


def test_the_release_that_is_built_is_among_those_that_were_tried() -> None:
    shown = (ROOT / "docs/compatibility.md").read_text()
    required = (ROOT / "tests/controlplane/gomodule/go.mod").read_text()
    [etcd] = re.findall(r"^require go\.etcd\.io/etcd/server/v3 v(\S+)", required, re.MULTILINE)
    assert f"| {kubernetes_version().removeprefix('v')} | {etcd} |" in shown
    assert f"Helm {helm_version().removeprefix('v')}" in shown


@pytest.mark.parametrize("name", OWN_MODULES)
def test_our_programs_are_of_the_release_that_is_built(name: str) -> None:
    required = (OWN_MODULES[name] / "go.mod").read_text()
    replaced = re.compile(r"^replace .*$", re.MULTILINE)
    ours = (ROOT / "tests/controlplane/gomodule/go.mod").read_text()
    # What needs libraries alone does not require Kubernetes itself.
    versions = re.findall(r"k8s\.io/kubernetes (v\S+)", required)
    assert versions in ([], [kubernetes_version()])
    assert replaced.findall(required) == replaced.findall(ours)
