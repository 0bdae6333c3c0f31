"""Names become parts of the API's paths in one module only, which escapes them."""

import ast

from tests.architecture.sources import FILES, ROOT, text_of

_MAKER = "kubeshare_py/manifests/api_paths.py"
_BEGINNINGS, _INSIDE = ("/api/", "/apis/"), "/namespaces/"
#: The embedded API server reads paths, and its demo has no names of others.
_LEFT_OUT = "kubeshare_py/embedded_cluster/"


def paths_with_names(source: str) -> list[int]:
    """The lines of f-strings that are paths of the API with something in them but constants."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        texts = [str(one.value) for one in node.values if isinstance(one, ast.Constant)]
        names = [one.value for one in node.values if isinstance(one, ast.FormattedValue)]
        is_path = any(one.startswith(_BEGINNINGS) or _INSIDE in one for one in texts)
        if is_path and not all(_is_constant(one) for one in names):
            found.append(node.lineno)
    return found


def _is_constant(value: ast.expr) -> bool:
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
    return bool(name) and name == name.upper()


def test_what_is_found() -> None:
    assert paths_with_names('f"/api/v1/nodes/{node}"') == [1]
    assert paths_with_names('f"{root}/namespaces/{namespace}/pods"') == [1]
    assert paths_with_names('f"/apis/{state_group.GROUP}/{VERSION}"') == []


def test_one_module_makes_paths() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        if not str(path.relative_to(ROOT)).startswith((_MAKER, _LEFT_OUT))
        for line in paths_with_names(text_of(path))
    }
    assert found == set()
