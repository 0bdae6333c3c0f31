"""What a viewer sees and does: clicks, keys, links, filters, a narrow window."""

from kubeshare_py.domain.values import replace
from kubeshare_py.views.view import TenantView
from tests.browser.conftest import Sight
from tests.browser.sights import a_cluster

FOCUS = "document.activeElement"


async def test_the_token_leaves_the_address_and_the_cards_are_shown(sight: Sight) -> None:
    await sight.open()
    assert sight.token not in await sight.tab.run("location.href")
    assert await sight.tab.run("document.querySelectorAll('.node').length") == 8
    await sight.tab.expect_text("38 of 56 cards", ".summary")
    await sight.tab.expect_text("unhealthy", ".body")
    order = await sight.tab.run("[...document.querySelectorAll('.title')].map((e) => e.innerText)")
    assert order[:3] == ["a100-1", "a100-2", "a100-10"]
    await sight.expect_no_errors()


async def test_without_a_token_it_asks_for_one_and_says_what_is_wrong_with_it(sight: Sight) -> None:
    tab = sight.tab
    await tab.open(sight.url)
    await tab.expect_text("Sign in", "main h1")
    await tab.type("nobody's")
    await tab.press("Enter")
    await tab.expect_text("does not accept this token")
    await tab.run("document.querySelector('#token').value = ''; null")
    await tab.type(sight.token)
    await tab.press("Enter")
    await tab.until("document.querySelector('.tile')")
    await tab.click("#sign-out")
    await tab.expect_text("Sign in", "main h1")
    assert await tab.run("sessionStorage.length") == 0
    assert "vision" not in await tab.text()


async def test_a_click_on_a_card_opens_it_and_its_pods_lead_on(sight: Sight) -> None:
    await sight.open()
    await sight.tab.click(".tile")
    await sight.tab.expect_text("a100-1 GPU 0", "#details h2")
    await sight.tab.expect_text("vision/detector-", "#details")
    assert "card=GPU-" in await sight.tab.run("location.hash")
    await sight.tab.click("#details td a")
    await sight.tab.expect_text("Pod", "#details .kind")
    await sight.tab.press("Escape")
    await sight.tab.until("document.querySelector('#details').hidden")
    assert await sight.tab.run(f"{FOCUS}.className") == "tile"


async def test_a_pod_that_waits_says_why_and_what_would_help(sight: Sight) -> None:
    await sight.open("#/queue")
    rows = await sight.tab.run(
        "[...document.querySelectorAll('.long .row a')].map((e) => e.innerText)"
    )
    assert rows == ["pretrain-urgent", "pretrain", "mistyped"]
    await sight.tab.click(".long .row:nth-child(2) a")
    await sight.tab.expect_text("it fits on h100-3 now with 2 GPUs", "#details")
    await sight.tab.expect_text("asks 8, free 2", "#details")
    await sight.tab.expect_text("and 1 node alike", "#details")
    await sight.expect_no_errors()


async def test_a_pod_of_a_gang_leads_to_the_others(sight: Sight) -> None:
    view = a_cluster()
    pods = (
        replace(pod, gang="run-7") if pod.name.startswith("pretrain") else pod for pod in view.pods
    )
    sight.state.view = replace(view, pods=tuple(pods))
    await sight.open("#/queue?pod=vision/pretrain")
    await sight.tab.expect_text("Gang run-7", "#details")
    await sight.tab.expect_text("2 pods, 0 with a node", "#details")
    await sight.tab.expect_text("What would make it fit", "#details")
    await sight.tab.click("#details section td a")
    await sight.tab.expect_text("pretrain-urgent", "#details h2")


async def test_what_is_shown_is_in_the_address(sight: Sight) -> None:
    await sight.open()
    await sight.tab.click("#filter-q")
    await sight.tab.type("whisper")
    await sight.tab.expect_text("6 cards of 56 match", ".found")
    shared = await sight.tab.run("location.hash")
    assert shared == "#/cards?q=whisper"
    await sight.go("#/cards?team=search&group=team&node=a100-1")
    await sight.tab.expect_text("a100-1", "#details h2")
    await sight.tab.until("document.querySelector('.group h2')?.innerText === 'platform'")
    assert await sight.tab.run("document.querySelector('#filter-team').value") == "search"
    await sight.go("#/cards?state=Unhealthy")
    assert await sight.tab.run("document.querySelectorAll('.tile').length") == 1
    await sight.go("#/cards?free=1&model=NVIDIA-L40S&as=table")
    await sight.tab.until("document.querySelectorAll('.long .row').length === 4")
    await sight.tab.run("history.back(); null")
    await sight.tab.until("document.querySelectorAll('.tile').length === 1")


async def test_arrows_lead_from_card_to_card_and_slash_to_the_search(sight: Sight) -> None:
    await sight.open()
    await sight.tab.run("document.querySelector('.tile').focus(); null")
    place = "[document.activeElement.closest('.node').querySelector('.title').innerText, " + (
        "document.activeElement.querySelector('.label').innerText].join(' ')"
    )
    walk = [
        ("ArrowRight", "a100-1 GPU 1"),
        ("ArrowDown", "a100-2 GPU 1"),
        ("ArrowLeft", "a100-2 GPU 0"),
        ("ArrowLeft", "a100-1 GPU 7"),
        ("End", "l40s-2 GPU 3"),
        ("ArrowUp", "l40s-1 GPU 3"),
        ("Home", "a100-1 GPU 0"),
    ]
    for key, where in walk:
        await sight.tab.press(key)
        assert await sight.tab.run(place) == where, key
    assert await sight.tab.run("document.querySelectorAll('.tile[tabindex=\"0\"]').length") == 1
    await sight.tab.press("Enter")
    await sight.tab.expect_text("a100-1 GPU 0", "#details h2")
    await sight.tab.press("Escape", "/")
    assert await sight.tab.run(f"{FOCUS}.id") == "filter-q"


async def test_usage_is_added_up_by_team_pod_model_and_node(sight: Sight) -> None:
    await sight.open("#/usage")
    await sight.tab.expect_text("research", ".long .row")
    for by, first in (("pod", "research/llm-pretrain-1"), ("model", "H100"), ("node", "h100-1")):
        await sight.tab.click(f'[data-by="{by}"]')
        await sight.tab.expect_text(first, ".long .row")
    await sight.expect_no_errors()


async def test_pasted_pods_are_asked_about(sight: Sight) -> None:
    await sight.open("#/what-if")
    await sight.tab.click(".actions .plain")
    await sight.tab.click(".actions .main")
    await sight.tab.expect_text("it would start now", ".answer")
    await sight.tab.run("document.querySelector('#manifest').value = 'a: ['; null")
    await sight.tab.click(".actions .main")
    await sight.tab.expect_text("the pasted text", ".problem")


async def test_changes_arrive_without_a_flicker(sight: Sight) -> None:
    await sight.open()
    await sight.tab.run("window.kept = [...document.querySelectorAll('.node')]; null")
    view = a_cluster()
    nodes = list(view.nodes)
    card = nodes[7].cards[1]
    late = TenantView(namespace="late", name="comer", milli=500, memory_bytes=1)
    changed = replace(card, tenants=(late,), used_milli=500)
    nodes[7] = replace(nodes[7], cards=(nodes[7].cards[0], changed, *nodes[7].cards[2:]))
    sight.state.view = replace(view, nodes=tuple(nodes))
    await sight.tab.until("document.querySelector('[aria-label*=\"late/comer\"]')")
    kept = await sight.tab.run("window.kept.filter((one) => one.isConnected).length")
    assert kept == 7


async def test_a_narrow_window_and_large_letters_lose_nothing(sight: Sight) -> None:
    await sight.open()
    for width, height in ((390, 844), (320, 256)):
        await sight.tab.size(width, height)
        await sight.settled()
        for view in ("#/cards", "#/cards?as=table", "#/queue", "#/usage", "#/what-if"):
            await sight.go(view)
            across = await sight.tab.run("document.documentElement.scrollWidth")
            assert across <= width, (view, width)
    await sight.go("#/queue")
    await sight.tab.click(".long .row a")
    await sight.tab.expect_text("pretrain-urgent", "#details h2")
    box = await sight.tab.run(
        "JSON.stringify(document.querySelector('#details').getBoundingClientRect())"
    )
    assert '"x":0,"y":0,"width":320' in box
