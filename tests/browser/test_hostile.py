"""Names that would be markup, streams that break, a scheduler and rights that come and go."""

import pytest

from kubeshare_py.dashboard.viewers import KEPT_S
from kubeshare_py.domain.values import replace
from kubeshare_py.views.view import ClusterView, PodView, TenantView
from tests.browser.conftest import Sight
from tests.browser.sights import CREATED, a_cluster, why_pretrain

GPUS, PODS = "gpus.state.kubeshare.io", "pods.state.kubeshare.io"
MARKUP = (
    '<img src=x onerror="window.broken=1">',
    "<script>window.broken=1</script>",
    '"><svg onload=window.broken=1>',
    "javascript:window.broken=1",
    "{{constructor.constructor('window.broken=1')()}}",
    "</textarea><b>x",
)


def _of(text: str) -> ClusterView:
    """A cluster with this text for a name wherever there is one."""
    view = a_cluster()
    first = view.nodes[0]
    # A whole card, so that it is among the first of usage.
    tenant = TenantView(namespace=text, name=text, milli=1000, memory_bytes=1)
    card = replace(first.cards[0], model=text, tenants=(tenant,), claimed_by=(text,), healthy=False)
    node = replace(first, name=text, cards=(card, *first.cards[1:]))
    pod = PodView(
        namespace=text, name=text, uid="uid-x", state="waiting", profile=text, created=CREATED,
        count=1, milli=500, models=(text,), message=text,
    )  # fmt: skip
    return replace(view, nodes=(node, *view.nodes[1:]), pods=(pod, *view.pods))


@pytest.mark.parametrize("text", MARKUP)
async def test_no_name_is_read_as_markup(sight: Sight, text: str) -> None:
    sight.state.view = _of(text)
    why = why_pretrain()
    sight.state.whys[text, text] = replace(why, message=text, waits_for=text, advice=(text,))
    await sight.open()
    shown = f"[...document.querySelectorAll('bdi')].some((e) => e.textContent.includes({text!r}))"
    assert await sight.tab.until(shown)
    for view in (
        "#/cards?as=table&state=ClaimedTwice",
        "#/cards?group=team",
        "#/queue",
        "#/usage?by=pod",
        "#/usage?by=model",
    ):
        await sight.go(view)
        assert await sight.tab.until(shown), view
    await sight.go("#/cards")
    await sight.tab.click(".tile")
    await sight.tab.until("!document.querySelector('#details').hidden")
    await sight.expect_no_errors()
    key = f"new URLSearchParams({{pod: {text!r} + '/' + {text!r}}})"
    await sight.tab.run(f"location.hash = '#/queue?' + {key}; null")
    # No such name is possible in Kubernetes: it is explained, or the refusal is shown.
    await sight.tab.until("document.querySelector('#details h3, #details .problem')")
    assert await sight.tab.run("window.broken") is None
    made = "document.querySelectorAll('main img, main script, main svg').length"
    assert await sight.tab.run(made) == 0
    assert [one for one in sight.tab.errors if "404" not in one] == []


async def test_the_browser_refuses_markup_and_scripts_in_any_case(sight: Sight) -> None:
    await sight.open()
    for script in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.createElement('img').setAttribute('onerror', 'window.broken=1')",
        "document.createElement('script').src = 'none.js'",
        "document.createElement('iframe').srcdoc = '<b>x</b>'",
        "setTimeout('window.broken=1')",
    ):
        refused = f"(() => {{ try {{ {script}; return false; }} catch {{ return true; }} }})()"
        assert await sight.tab.run(refused), script
    assert await sight.tab.run("window.broken") is None
    elsewhere = "fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')"
    assert await sight.tab.run(elsewhere) == "refused"


async def test_marks_that_turn_a_text_around_are_shown_and_not_obeyed(sight: Sight) -> None:
    sight.state.view = _of("evil\u202etxt.exe\u2066\u200b")
    await sight.open("#/queue")
    await sight.tab.expect_text("evil\\u202etxt.exe\\u2066\\u200b", ".long")
    sight.state.view = _of("مرحبا")
    await sight.tab.expect_text("مرحبا", ".long")
    assert (
        await sight.tab.run("getComputedStyle(document.querySelector('bdi')).unicodeBidi")
        == "isolate"
    )


async def test_a_scheduler_that_is_away_is_told_and_the_last_state_stays(sight: Sight) -> None:
    await sight.open()
    sight.behind.server.target = None
    await sight.tab.expect_text("The state is not new", "#alerts")
    assert await sight.tab.run("document.querySelectorAll('.tile').length") == 56
    assert await sight.tab.run("document.querySelector('#live').dataset.kind") == "broken"
    view = a_cluster()
    sight.state.view = replace(view, nodes=view.nodes[:2])
    sight.behind.server.target = sight.state
    await sight.tab.until("document.querySelectorAll('.tile').length === 16")
    await sight.tab.until("!document.querySelector('#alerts').innerText")


async def test_a_dashboard_that_is_away_is_asked_again(sight: Sight) -> None:
    await sight.open()
    await sight.tab.ask(
        "Network.emulateNetworkConditions",
        offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1,
    )  # fmt: skip
    # A request that waits is not cut by this: the answer to it is the last that comes.
    sight.state.view = replace(a_cluster(), pods=())
    await sight.tab.expect_text("cannot be reached", "#alerts")
    assert await sight.tab.run("document.querySelectorAll('.tile').length") == 56
    await sight.tab.ask(
        "Network.emulateNetworkConditions",
        offline=False, latency=50, downloadThroughput=4096, uploadThroughput=4096,
    )  # fmt: skip
    view = a_cluster()
    sight.state.view = replace(view, nodes=view.nodes[:1])
    await sight.tab.until("document.querySelectorAll('.tile').length === 8")
    await sight.tab.until("!document.querySelector('#alerts').innerText")


async def test_a_viewer_who_loses_its_rights_sees_nothing_more(sight: Sight) -> None:
    access = sight.behind.server.service.access
    access.objects["jane"] = {(GPUS, ""), (PODS, "")}
    token = sight.behind.server.add_user("jane")
    await sight.open("#/cards?node=h100-1", token)
    await sight.tab.expect_text("h100-1", "#details h2")
    access.objects["jane"] = set()
    sight.clock.ahead_s += KEPT_S
    sight.state.view = replace(a_cluster(), pods=())
    await sight.tab.expect_text("cannot list resource", "main .problem")
    text = await sight.tab.text()
    assert "h100" not in text
    assert "vision" not in text
    assert await sight.tab.run("sessionStorage.length") == 0


async def test_a_viewer_of_one_team_sees_amounts_of_others(sight: Sight) -> None:
    view = a_cluster()
    hidden = [
        replace(
            node,
            cards=tuple(
                replace(
                    card,
                    tenants=tuple(
                        one if one.namespace == "vision" else replace(one, namespace="", name="")
                        for one in card.tenants
                    ),
                )
                for card in node.cards
            ),
        )
        for node in view.nodes
    ]
    own = tuple(pod for pod in view.pods if pod.namespace == "vision")
    sight.state.view = replace(view, nodes=tuple(hidden), pods=own)
    await sight.open()
    about = await sight.tab.run(
        "[...document.querySelectorAll('.tile')].map((e) => e.getAttribute('aria-label')).join()"
    )
    assert "a pod of another namespace" in about
    assert "whisper" not in about
    await sight.go("#/usage")
    await sight.tab.expect_text("other namespaces", ".long")
    await sight.expect_no_errors()
