"""Files that people write: configuration, KubeShare's cells, inventories and simulated clusters."""

import json
import re
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec
import yaml

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.documents.yaml_text import DocumentProblem, YamlProblem, read_yaml
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from tests.documents.examples import CONFIG, KINDS, REFUSED, inventory_text
from tests.fuzz import odd
from tests.fuzz.family import Family, said

_NAME = "here.yaml"
#: With what the path of a field begins.
_FIELDS = {field.encode_name for field in msgspec.structs.fields(SchedulerConfiguration)}
_WHOLE = {"document", "cells file", "cellTypes", "cells"}
_FIRST = re.compile(r"[^.:\[]*")
_KEYS = (
    *_FIELDS,
    *("enabled", "disabled", "name", "args", "weight", "pluginConfig", "cellChildren", "cellId"),
    *("cellType", "count", "uuid", "healthy", "topology", "<<", "cards", "names", "model"),
)
#: Whose readers read the text themselves.
_TEXTS: dict[str, Callable[[bytes, str], object]] = {
    "inventory": inventory_text,
    "cluster": read_cluster,
}
_PIECES = ("&a", "*a", "<<: *a", "!!str", "!x", "---", "...", "? x", "- ", "  ", "|", ">", "%YAML")


def _odd_file(kind: str) -> Callable[[Random], bytes]:
    examples = [json.dumps(one) for one in KINDS[kind][1]]
    texts = [yaml.safe_dump(one) for one in KINDS[kind][1]]
    if kind == "configuration":
        texts += [path.read_text() for path in sorted(CONFIG.glob("*.yaml"))]

    def make(rng: Random) -> bytes:
        if rng.random() < 0.7:
            made = odd.changed(rng, json.loads(rng.choice(examples)), _KEYS)
            return odd.as_bytes(made)
        lines = rng.choice(texts).split("\n")
        for _ in range(rng.randint(1, 4)):
            way, at = rng.random(), rng.randrange(len(lines))
            if way < 0.4:
                lines[at] = odd.garbled(rng, lines[at])
            elif way < 0.6:
                lines[at] = f"{lines[at]} {rng.choice(_PIECES)}"
            elif way < 0.7:
                lines[at] = rng.choice(("  ", " ", "\t")) + lines[at]
            elif way < 0.85:
                lines[at] = ""
            else:
                lines.insert(rng.randrange(len(lines)), lines[at])
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    return make


def _judged(kind: str) -> Callable[[bytes], None]:
    use = _TEXTS.get(kind) or partial(_use_document, KINDS[kind][0])

    def judge(written: bytes) -> None:
        found = _refusal(use, written)
        assert repr(found) == repr(_refusal(use, written)), "a file is judged in two ways"
        if found is None:
            return
        said(str(found))
        if isinstance(found, DocumentProblem):
            _names_the_place(found, written)
        else:
            _names_the_field(found, written)

    return judge


def _refusal(use: Callable[[bytes, str], object], written: bytes) -> Exception | None:
    try:
        use(written, _NAME)
    except REFUSED as error:
        return error
    return None


def _use_document(use: Callable[[object], None], written: bytes, source: str) -> None:
    use(read_yaml(written, source))


def _names_the_place(found: DocumentProblem, written: bytes) -> None:
    assert str(found).startswith(f"{_NAME}: ")
    if isinstance(found, YamlProblem):
        assert (
            1
            <= found.line
            <= len(written.splitlines())
            + written.count(b"\xe2\x80")
            + written.count(b"\xc2\x85")
            + 2
        )
        assert f"line {found.line}, column {found.column}" in str(found)


def _names_the_field(found: Exception, written: bytes) -> None:
    document = read_yaml(written, _NAME)
    first = _FIRST.match(str(found))
    known = _FIELDS | _WHOLE | (set(document) if isinstance(document, dict) else set())
    assert first is not None
    assert any(first[0] in str(name) for name in known), f"no field is named: {found}"


FAMILIES = tuple(
    Family(name=kind, make=_odd_file(kind), judge=_judged(kind), share=share)
    for kind, share in (("configuration", 5), ("cells", 2), ("inventory", 4), ("cluster", 2))
)
