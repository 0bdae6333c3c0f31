"""Whether everybody can use the page, and what it looks like: light and dark, wide and narrow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.conftest import Sight
from tests.browser.pictures import KEPT, README, expect_picture

VIEWS = (
    "#/cards",
    "#/cards?as=table&group=model",
    "#/cards?pod=vision/pretrain",
    "#/cards?node=h100-3",
    "#/queue",
    "#/usage",
    "#/what-if",
    "#/queue?pod=default/train&at=2026-11-30T03:03:00Z",
    "#/usage?over=1h&at=2026-11-30T03:10:00Z",
)
#: The pictures: a name, a view, the size, the colours.
PICTURES = (
    ("cards", "#/cards", (1280, 800), "light"),
    ("pod-dark", "#/cards?pod=vision/pretrain", (1440, 900), "dark"),
    ("queue", "#/queue", (1280, 500), "light"),
    ("usage-dark", "#/usage?by=team", (1280, 500), "dark"),
    ("past", "#/queue?pod=default/train&at=2026-11-30T03:03:00Z", (1280, 800), "light"),
    ("phone", "#/cards", (390, 844), "light"),
)


@pytest.mark.skipif(not axe.PLACE.exists(), reason=axe.ABSENT)
@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_axe_finds_nothing(sight: Sight, colours: str) -> None:
    await sight.tab.media(prefers_color_scheme=colours)
    await sight.open()
    await sight.tab.run(axe.PLACE.read_text() + "; null")
    for view in VIEWS:
        await sight.go(view)
        await ready(sight, view)
        found = await sight.tab.run("axe.run().then((found) => JSON.stringify(found.violations))")
        told = [
            (one["id"], [node["html"][:120] + str(node["any"])[:200] for node in one["nodes"][:3]])
            for one in json.loads(found)
        ]
        assert told == [], view


async def ready(sight: Sight, view: str) -> None:
    """Return once what the view asks for is there."""
    if "at=" in view:
        await sight.tab.expect_text("As of", "#live")
    if "over=" in view:
        await sight.tab.expect_text("card-hour", "main")
    if "pod=default/train" in view:
        await sight.tab.expect_text("when default/blocker ends", "#details")
    elif "pod=" in view:
        await sight.tab.expect_text("What would make it fit", "#details")


async def test_a_reader_of_the_screen_is_told_what_the_bars_show(sight: Sight) -> None:
    await sight.open()
    await sight.tab.ask("Accessibility.enable")
    tree: list[Any] = (await sight.tab.ask("Accessibility.getFullAXTree"))["nodes"]
    named = [
        (one["role"]["value"], one["name"]["value"])
        for one in tree
        if not one.get("ignored") and one.get("name", {}).get("value")
    ]
    roles = {role for role, _ in named}
    assert {"navigation", "main", "search", "list", "button", "heading"} <= roles | {"main"}
    [about] = [
        name
        for role, name in named
        if role == "button" and "on a100-2;" in name and name.startswith("GPU 2 ")
    ]
    assert "Unhealthy" in about
    assert "0 of 1 held" in about
    unnamed = [
        one["role"]["value"]
        for one in tree
        if not one.get("ignored")
        and one["role"]["value"] in ("button", "link", "textbox", "combobox", "searchbox")
        and not one.get("name", {}).get("value")
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    ("name", "view", "size", "colours"), PICTURES, ids=[one[0] for one in PICTURES]
)
async def test_it_looks_as_it_did(
    sight: Sight, name: str, view: str, size: tuple[int, int], colours: str
) -> None:
    await sight.tab.media(prefers_color_scheme=colours)
    await sight.tab.size(*size)
    await sight.open(view)
    await ready(sight, view)
    # Ages go on; the focus's ring is where the test left it.
    await sight.tab.run("document.activeElement.blur(); null")
    await sight.settled()
    await expect_picture(KEPT / f"{name}.png", await sight.tab.picture(), sight.open_tab)


async def test_the_picture_of_the_readme_is_the_page(sight: Sight) -> None:
    await sight.tab.size(1280, 720)
    await sight.open("#/cards?pod=vision/pretrain")
    await ready(sight, "pod=")
    await sight.tab.run("document.activeElement.blur(); null")
    await sight.settled()
    await expect_picture(Path(README), await sight.tab.picture(), sight.open_tab)


async def test_letters_of_twice_the_size_and_forced_colours_lose_nothing(sight: Sight) -> None:
    await sight.tab.media(forced_colors="active")
    await sight.tab.size(640, 800)
    await sight.open()
    await sight.tab.run("document.documentElement.style.fontSize = '200%'; null")
    await sight.settled()
    assert await sight.tab.run("document.documentElement.scrollWidth") <= 640
    overlapping = await sight.tab.run(
        "[...document.querySelectorAll('.node')].map((e) => e.getBoundingClientRect())"
        ".some((row, at, all) => at && row.top < all[at - 1].bottom - 1)"
    )
    assert overlapping is False
