"""Any client that lists, in pages, and then watches ends up knowing what the server knows."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.embedded_cluster.api_client import MAPS, Api

SELECTORS = st.sampled_from(["", "labelSelector=x=1", "labelSelector=x!=1"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "delete"]), st.sampled_from("abcde"), st.integers(0, 2)),
    max_size=12,
)


def change(api: Api, step: tuple[str, str, int]) -> None:
    verb, name, value = step
    if verb == "delete":
        api.delete(f"{MAPS}/{name}")
        return
    body = {"metadata": {"name": name, "labels": {"x": str(value)}}}
    api.post(MAPS, body)
    api.patch(f"{MAPS}/{name}", body)


def versions(items: list[Any]) -> dict[str, str]:
    return {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in items}


@given(before=STEPS, between=STEPS, after=STEPS, selector=SELECTORS)
def test_list_then_watch_converges(before: Any, between: Any, after: Any, selector: str) -> None:
    api = Api()
    for step in before:
        change(api, step)
    page = api.get(f"{MAPS}?{selector}&limit=2".replace("?&", "?"))
    version = page["metadata"]["resourceVersion"]
    known = versions(page["items"])
    pending = list(between)
    while token := page["metadata"].get("continue"):
        for step in pending[:2]:
            change(api, step)
        del pending[:2]
        page = api.get(f"{MAPS}?{selector}&limit=2&continue={token}".replace("?&", "?"))
        known |= versions(page["items"])
    watch = api.watch(f"{MAPS}?{selector}&resourceVersion={version}".replace("?&", "?"))
    for step in [*pending, *after]:
        change(api, step)
    for event in watch.events():
        metadata = event["object"]["metadata"]
        if event["type"] == "DELETED":
            assert metadata["name"] in known
            del known[metadata["name"]]
        else:
            assert (event["type"] == "MODIFIED") == (metadata["name"] in known)
            known[metadata["name"]] = metadata["resourceVersion"]
    assert known == versions(api.get(f"{MAPS}?{selector}")["items"])
