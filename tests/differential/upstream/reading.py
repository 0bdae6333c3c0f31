"""Reads cases/*.yaml: which tests of kube-scheduler there are, and the cases that are expressed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.manifests.watch import ADDED, DELETED, MODIFIED
from tests.differential.answers import Refusals
from tests.differential.upstream.expectations import Expectation
from tests.differential.upstream.objects import budget, namespace, node, pod
from tests.differential.upstream.reasons import REASONS
from tests.differential.upstream.volumes import storage

Json = dict[str, Any]

FOLDER = Path(__file__).with_name("cases")
_MANY = re.compile(r"(\d+) x (.*\bon (\S+).*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCase:
    """One case of a test of kube-scheduler; `differs` says why this scheduler differs, if so."""

    test: str
    name: str
    case: Json
    expected: Expectation
    differs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WakingCase:
    """Pods that fit nowhere, and changes: objects that are ADDED, MODIFIED or DELETED.

    kube-scheduler tries the pods `wakes` again; those of them that fit then are `binds`.
    """

    test: str
    name: str
    objects: tuple[Json, ...]
    waiting: tuple[Json, ...]
    changes: tuple[tuple[str, Json], ...]
    wakes: frozenset[str]
    binds: frozenset[str]
    differs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFile:
    """A file of tests of the Go module k8s.io/kubernetes.

    `left` has what is not expressed: for each reason the number of cases.
    """

    path: str
    cases: tuple[UpstreamCase, ...] = ()
    waking: tuple[WakingCase, ...] = ()
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Cases of the file that are about the scheduler."""
        return len(self.expressed) + sum(self.left.values())

    @property
    def expressed(self) -> tuple[UpstreamCase | WakingCase, ...]:
        """Those of both kinds."""
        return *self.cases, *self.waking


@cache
def upstream_files() -> tuple[UpstreamFile, ...]:
    """All of them, by path."""
    found = [one for path in sorted(FOLDER.glob("*.yaml")) for one in files_of(path)]
    return tuple(sorted(found, key=lambda one: one.path))


@cache
def files_of(path: Path) -> tuple[UpstreamFile, ...]:
    """Those of one file of cases."""
    return tuple(_files(path))


def _files(path: Path) -> Iterator[UpstreamFile]:
    for written in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        cases: list[UpstreamCase] = []
        waking: list[WakingCase] = []
        left: dict[str, int] = {}
        for test in written["tests"]:
            wholes = [{**test.get("given", {}), **one} for one in test.get("cases", ())]
            cases += [_case(test["test"], one) for one in wholes if "waiting" not in one]
            waking += [_waking(test["test"], one) for one in wholes if "waiting" in one]
            for one in test.get("left", ()):
                left[one["why"]] = left.get(one["why"], 0) + one["cases"]
        yield UpstreamFile(
            path=written["file"], cases=tuple(cases), waking=tuple(waking), left=left
        )


def _case(test: str, given: Json) -> UpstreamCase:
    made: Json = {"objects": _objects(given), "pod": pod(given.get("pod", "p"))}
    arguments = given.get("arguments", {})
    if arguments:
        made["pluginConfig"] = [{"name": name, "args": args} for name, args in arguments.items()]
    return UpstreamCase(
        test=test,
        name=str(given["case"]),
        case=made,
        expected=_expectation(given),
        differs=given.get("differs", ""),
    )


def _waking(test: str, given: Json) -> WakingCase:
    """`then` has what is new, or replaces what has its name; `gone` has kinds and names."""
    objects = _objects(given)
    known = {_identity(one): one for one in objects}
    waiting = tuple(pod(one) for one in given["waiting"])
    known_pods = known | {_identity(one): one for one in waiting}
    changes = [
        (MODIFIED if _identity(one) in known_pods else ADDED, one)
        for one in _changeable(given.get("then", {}))
    ]
    changes += [(DELETED, known[tuple(one.split("/"))]) for one in given.get("gone", ())]
    wakes = frozenset(given["wakes"].split())
    return WakingCase(
        test=test,
        name=str(given["case"]),
        objects=tuple(objects),
        waiting=waiting,
        changes=tuple(changes),
        wakes=wakes,
        binds=frozenset(given["binds"].split()) if "binds" in given else wakes,
        differs=given.get("differs", ""),
    )


def _identity(one: Json) -> tuple[str, ...]:
    return one["kind"], one["metadata"]["name"]


def _objects(given: Json) -> list[Json]:
    return [
        *_changeable(given),
        *(namespace(*one) for one in _namespaces(given).items()),
        *(budget(one) for one in given.get("budgets", ())),
    ]


def _changeable(given: Json) -> list[Json]:
    objects = [node(one) for one in given.get("nodes", ())]
    objects += _pods(given)
    lines = [*given.get("classes", ()), *given.get("storage", ())]
    return objects + [storage(one) for one in lines]


def _pods(given: Json) -> list[Json]:
    """`3 x app=web on n1` are three alike, n1-0 and so on."""
    found: list[Json] = []
    for one in given.get("pods", ()):
        many = _MANY.fullmatch(one) if isinstance(one, str) else None
        lines = [one]
        if many:
            lines = [f"{many[3]}-{at} {many[2]}" for at in range(int(many[1]))]
        found += [pod(line) for line in lines]
    return found


def _namespaces(given: Json) -> dict[str, str]:
    """Those of the pods, too."""
    pods = [pod(given.get("pod", "p")), *_pods(given)]
    names = {one["metadata"]["namespace"]: "" for one in pods}
    found: dict[str, str] = given.get("namespaces", {})
    return names | found


def _expectation(given: Json) -> Expectation:
    nodes = [one.split()[0] for one in given.get("nodes", ())]
    refuses = given.get("refuses")
    fits, best = given.get("fits"), given.get("best")
    preempts = given.get("preempts")
    return Expectation(
        plugin=given.get("plugin", ""),
        refuses=None if refuses is None else _refusals(refuses, nodes),
        fits=None if fits is None else frozenset(_names(fits, nodes)),
        scores=given.get("scores"),
        best=None if best is None else frozenset(_names(best, nodes)),
        preempts=None if preempts is None else {one: _keys(preempts[one]) for one in preempts},
        message=given.get("message"),
    )


def _refusals(given: Mapping[str, str], nodes: list[str]) -> Refusals:
    """From `{reason: nodes}`; a reason that ends in `!` stays whatever is evicted."""
    found: Refusals = {}
    for reason, refused in given.items():
        word = reason.removesuffix("!")
        for name in _names(refused, nodes):
            texts, resolvable = found.get(name, ((), True))
            texts = tuple(sorted((*texts, REASONS.get(word, word))))
            found[name] = texts, resolvable and not reason.endswith("!")
    return found


def _names(text: str, nodes: list[str]) -> list[str]:
    return nodes if text == "*" else text.split()


def _keys(names: str) -> frozenset[str]:
    """Pods without a namespace are in `default`."""
    return frozenset(one if "/" in one else f"default/{one}" for one in names.split())
