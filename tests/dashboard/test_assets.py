"""The files of the page: what they may do in a browser, and what they never contain."""

import re
from pathlib import Path

import pytest

import kubeshare_py.dashboard
from kubeshare_py.dashboard import assets
from tests.each import each

FOLDER = Path(kubeshare_py.dashboard.__file__).parent / assets.FOLDER
SCRIPTS = sorted(FOLDER.glob("*.js"))
#: Whatever reads a text as markup or as a script.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\b|new Function|setHTML|srcdoc|javascript:"
)


def test_the_policy_lets_only_the_pages_own_files_in() -> None:
    rules = dict(rule.split(" ", 1) for rule in assets.POLICY.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in assets.POLICY
    assert "http" not in assets.POLICY


def test_no_script_reads_a_text_as_markup() -> None:
    for path in each(SCRIPTS):
        assert MARKUP.search(path.read_text()) is None, path.name


def test_the_page_has_neither_scripts_nor_styles_inside() -> None:
    page = (FOLDER / assets.INDEX).read_text()
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="main.js">']
    assert "<style" not in page
    assert re.search(r"\s(style|on\w+)=", page) is None


def test_nothing_leads_elsewhere() -> None:
    for path in each(sorted(FOLDER.iterdir())):
        found = re.findall(r"https?://[^\s\"')]+", path.read_text())
        assert [one for one in found if one != "http://www.w3.org/2000/svg"] == [], path.name


def test_every_module_that_is_imported_is_there() -> None:
    for path in each(SCRIPTS):
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            assert (FOLDER / name).is_file(), f"{path.name}: {name}"


def test_what_a_module_exports_another_one_imports() -> None:
    texts = {path.name: path.read_text() for path in SCRIPTS}
    for name, text in each(texts.items()):
        others = [one for other, one in texts.items() if other != name]
        imports = re.compile(rf'import (?:{{([^}}]*)}}|\* as (\w+)) from "\./{name}"')
        imported = set[str]()
        for one in others:
            for names, whole in imports.findall(one):
                imported |= set(re.findall(r"\w+", names) or re.findall(rf"\b{whole}\.(\w+)", one))
        declared = r"^export (?:async )?(?:function\*?|class|const) (\w+)"
        assert [one for one in re.findall(declared, text, re.M) if one not in imported] == [], name
        assert "export {" not in text, "declared where it stands"


def test_every_file_is_served_as_what_it_is() -> None:
    for path in each(sorted(FOLDER.iterdir())):
        found = assets.asset(path.name, path.read_bytes())
        assert found.content_type.startswith(("text/", "image/"))
    with pytest.raises(KeyError):
        assets.asset("page.exe", b"")


@pytest.mark.parametrize(
    ("asked", "fresh"),
    [('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("", False)],
)
def test_a_file_that_the_browser_has_is_not_sent_again(asked: str, fresh: bool) -> None:
    assert assets.is_fresh(asked, '"a"') == fresh


def test_another_sites_page_is_recognised() -> None:
    assert assets.is_of_another_site("cross-site")
    assert assets.is_of_another_site("same-site")
    assert not assets.is_of_another_site("same-origin")
    assert not assets.is_of_another_site("")
