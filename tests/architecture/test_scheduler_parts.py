"""How the scheduler's parts work together: what each gives back, and what each is handed."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import FILES, ROOT, module_of, nodes_of, where

EDGES = [
    path
    for room in ("edges", "programs", "embedded_cluster")
    for path in FILES
    if path.is_relative_to(ROOT / "kubeshare_py" / room)
]
#: Values of a machine that are no parts of it.
PLAIN = {"name", "profiles"}
SCHEDULING = ROOT / "kubeshare_py" / "scheduling"
PARTS = [path for path in FILES if path.is_relative_to(SCHEDULING)]
#: What constructors take apart, and all that the machine consists of.
STATE = {"State", "ProfilesInUse"}
WHOLE = "MachineParts"
#: The calls that change what a row of the map's table names, by the name that the part goes by.
CHANGES = {
    "nodes and cards": ("ledger", {"put_node", "drop_node", "put_cards", "put_silent"}),
    "charges in the ledger": (
        "ledger",
        {"charge", "release", "linger", "undo_charge", "end_lingering"},
    ),
    "charges of pods": ("charges", {"charge", "release", "linger", "undo", "edited", "shrink"}),
    "cards that claims hold": ("ledger", {"hold_cards", "release_cards"}),
    "reserved places": ("ledger", {"reserve", "dissolve"}),
    "which pods are known": ("table", {"add", "remove"}),
    "states of pods": ("table", {"transition"}),
    "members of gangs": (
        "gangs",
        {"record_member", "gone", "drop", "declare", "finish", "finished_are"},
    ),
    "nominees with reservations": ("reservations", {"hold"}),
}


def test_effects_are_returned() -> None:
    # A list that callees append to hides the order of effects, and which calls have any.
    found = [
        where(path, node.lineno)
        for path in PARTS
        for node in nodes_of(path)
        if isinstance(node, ast.arg)
        and (node.arg == "effects" or "Effect]" in ast.unparse(node.annotation or node))
    ]
    assert not found


def test_the_process_around_a_machine_asks_it_and_not_its_parts() -> None:
    # What edges read of the machine's parts, they would have to know of each change of them.
    module = module_of(SCHEDULING / "machine.py")
    machine = next(
        node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Machine"
    )
    asked = {node.name for node in machine.body if isinstance(node, ast.FunctionDef)} | PLAIN
    found = [
        f"{where(path, node.lineno)}: {node.attr}"
        for path in EDGES
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value).rpartition(".")[2] in ("machine", "_machine")
        and node.attr not in asked
    ]
    assert not found


@pytest.mark.parametrize("what", CHANGES)
def test_the_map_says_what_changes_the_state(what: str) -> None:
    part, calls = CHANGES[what]
    found = {
        path.stem
        for path in PARTS
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in calls
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") == part
    }
    assert found == _changers()[what]


def test_the_table_of_changes_has_no_other_rows() -> None:
    assert _changers().keys() == CHANGES.keys()


def _changers() -> dict[str, set[str]]:
    """The last column of the map's table, by its first one."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    lines = text.partition("| what | kept by | changed by |\n")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return {what: set(re.findall(r"`([a-z_]+)`", modules)) for what, _, modules in rows}


def _said_writers() -> list[tuple[set[str], set[str]]]:
    """The fields of `Record` below each comment, and the modules in its brackets."""
    source = (SCHEDULING / "queue" / "pod_records.py").read_text()
    of_record = source.partition("class Record:")[2].partition("    @property")[0]
    modules = {path.stem for path in PARTS}
    said = []
    for comment, fields in re.findall(r"((?:^    #:?.*\n)+)((?:^    \w+: .*\n)+)", of_record, re.M):
        brackets = " ".join(re.findall(r"\(([^()]*)\)", comment.replace("#:", "")))
        named = modules.intersection(re.findall(r"\w+", brackets))
        said.append(({*re.findall(r"^    (\w+): ", fields, re.M)}, named))
    return said


def _writers() -> dict[str, set[str]]:
    """The modules that assign to a field of a record, by field."""
    found: dict[str, set[str]] = {}
    for path in PARTS:
        for node in nodes_of(path):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value).rpartition(".")[2] in ("record", "nominee")
            ):
                found.setdefault(node.attr, set()).add(path.stem)
    return found


def test_each_field_of_a_record_says_who_writes_it() -> None:
    written, said = _writers(), _said_writers()
    assert sum(len(fields) for fields, _ in said) > len(written) > 15, "are they found?"
    for fields, named in said:
        assert named == {one for name in fields for one in written.get(name, ())}


def _constructors() -> Iterator[tuple[str, ast.FunctionDef, ast.arg]]:
    """The parameters of constructors that have a part of the state as their type."""
    for path in PARTS:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                for arg in (*node.args.args, *node.args.kwonlyargs):
                    if _type(arg) in STATE:
                        yield where(path, node.lineno), node, arg


def _type(arg: ast.arg) -> str:
    return "" if arg.annotation is None else ast.unparse(arg.annotation)


def test_only_the_machine_knows_all_parts() -> None:
    knows = {
        path.name
        for path in PARTS
        for node in nodes_of(path)
        if WHOLE in (getattr(node, "id", ""), getattr(node, "name", ""))
    }
    assert knows == {"assembly.py"}, "the machine gets it from assemble()"
    callers = {
        path.name
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.alias) and node.name == "assemble"
    }
    assert callers == {"machine.py"}


def test_constructors_name_what_they_use_of_the_state() -> None:
    """Of each part at least two: a class that uses one takes that one. None keeps a part."""
    taken = list(_constructors())
    assert len(taken) > len(STATE), "are they found?"
    for place, constructor, arg in taken:
        members, is_handed_on = _uses(constructor.body, arg)
        kept = [
            node
            for node in _inside(constructor.body)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and any(_is(value, arg) for value in _values(node))
        ]
        assert not kept, f"{place} keeps {arg.arg}"
        assert is_handed_on or len(members) > 1, f"{place}: {arg.arg} for {members} alone"


def _uses(body: list[ast.stmt], arg: ast.arg) -> tuple[set[str], bool]:
    """The members of this argument that are used, and whether it is kept or handed on, whole."""
    members = {
        node.attr
        for node in _inside(body)
        if isinstance(node, ast.Attribute) and _is(node.value, arg)
    }
    calls = (node for node in _inside(body) if isinstance(node, ast.Call))
    kept = (node for node in _inside(body) if isinstance(node, ast.Assign))
    whole = [value for call in calls for value in call.args]
    whole += [value for one in kept for value in _values(one) if value is not None]
    return members, any(_is(value, arg) for value in whole)


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    return (node for statement in body for node in ast.walk(statement))


def _is(node: ast.expr | None, arg: ast.arg) -> bool:
    return isinstance(node, ast.Name) and node.id == arg.arg


def _values(node: ast.Assign | ast.AnnAssign) -> list[ast.expr | None]:
    return [*node.value.elts] if isinstance(node.value, ast.Tuple) else [node.value]


def test_explanations_are_handed_what_they_read() -> None:
    """A function that reads two members of the machine at most takes these instead."""
    explain = [path for path in PARTS if path.is_relative_to(SCHEDULING / "explain")]
    found = []
    for path in explain:
        for node in nodes_of(path):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("_"):
                continue
            for arg in (one for one in node.args.args if _type(one) == "Machine"):
                members, is_handed_on = _uses(node.body, arg)
                if not is_handed_on and len(members) <= 2:
                    found.append(f"{where(path, node.lineno)} {node.name}: {sorted(members)}")
    assert not found
