"""The process that asks Prometheus on a timer and reports only what changed.

It is a process of its own because decoding a large answer would hold the scheduler's event loop.
One JSON line in (`Start`), then a report per query; it ends when its standard input does, so it
never outlives the scheduler.
"""

import gc
import os
import re
import select
import sys
import time
from collections.abc import Iterable
from typing import TextIO

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3 import Retry

from kubeshare_py.edges.inventory_reports import Access, Failure, Start, line, news_lines
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series import CAPACITY, NAME_MATCHER, Series
from kubeshare_py.inventory.series_selectors import Matcher, parse_matchers

TIMEOUT_S = 30
#: Where answers say that they are partial: VictoriaMetrics at the beginning, others at the end.
_EDGE = 4096
_WARNINGS = re.compile(rb'"warnings":(\[(?:"(?:[^"\\]|\\.)*",?)*\])')
_FAILURES = (requests.RequestException, PrometheusApiClientException, OSError)
_MALFORMED = (LookupError, TypeError, ValueError)


def main() -> None:
    """Read `Start`, then query until standard input ends."""
    first = sys.stdin.buffer.readline()
    if not first:
        return
    start = msgspec.json.decode(first, type=Start)
    matchers = parse_matchers(start.selector)
    known = start.known
    # A third of a reading's time would go to looking for garbage among what is still needed.
    gc.disable()
    remarks: list[str] = []
    with _session(start.access, remarks) as session:
        client = PrometheusConnect(
            url=start.url.rstrip("/"), session=session, retry=Retry(total=0), timeout=TIMEOUT_S
        )
        while True:
            remarks.clear()
            lines, known = _ask(client, start, matchers, known, remarks)
            for one in lines:
                sys.stdout.buffer.write(one)
            sys.stdout.buffer.flush()
            gc.collect()
            if _ended(sys.stdin, start.interval_s):
                return


def _session(access: Access, remarks: list[str]) -> requests.Session:
    """A session that adds to `remarks` what answers say of themselves; the client drops it."""

    def hear(response: requests.Response, **_options: object) -> None:
        remarks.extend(_remarks(response.content))

    session = requests.Session()
    session.verify = access.ca_file or True
    # Packing the answer takes Prometheus longer than 20 MB take on the way.
    session.headers["Accept-Encoding"] = "identity"
    session.hooks["response"].append(hear)
    return session


def _remarks(body: bytes) -> list[str]:
    found = _WARNINGS.search(body[-_EDGE:])
    remarks = msgspec.json.decode(found[1], type=list[str]) if found else []
    if b'"isPartial":true' in body[:_EDGE]:
        remarks.append("the answer is partial")
    return [f"Prometheus says: {remark}" for remark in remarks]


def _ask(
    client: PrometheusConnect,
    start: Start,
    matchers: tuple[Matcher, ...],
    known: Reading,
    remarks: Iterable[str],
) -> tuple[list[bytes], Reading]:
    try:
        client.headers = _headers(start.access.token_file)
        found = client.custom_query(f"{{{NAME_MATCHER},{start.selector}}}")
        vector = [Series(one["metric"], float(one["value"][1])) for one in found]
    except _FAILURES as problem:
        return [line(Failure(message=f"{type(problem).__name__}: {problem}"))], known
    except _MALFORMED as problem:
        return [line(Failure(message=f"not an answer of Prometheus: {problem!r}"))], known
    step = next_reading(known, vector, time.monotonic(), matchers, unix_now=time.time())
    is_bare = all(series.name != CAPACITY for series in vector)
    hints = _where_cards_are(client, start.selector) if is_bare else ()
    return news_lines(step, known, (*remarks, *hints)), step.reading


def _where_cards_are(client: PrometheusConnect, selector: str) -> tuple[str, ...]:
    """Say what a selector that finds no cards leaves out."""
    nothing = f"no {CAPACITY} series matches {{{selector}}}"
    try:
        jobs = client.get_label_values("job", {"match[]": CAPACITY})
        others = ", ".join(sorted(str(job) for job in jobs))
    except (*_FAILURES, *_MALFORMED):
        return (nothing,)
    return (f"{nothing}; there are some of these jobs: {others}" if others else nothing,)


def _headers(token_file: str) -> dict[str, str]:
    """The bearer token, read again for each query because the kubelet renews the file."""
    if not token_file:
        return {}
    with open(token_file, encoding="utf-8") as file:
        return {"Authorization": f"Bearer {file.read().strip()}"}


def _ended(stream: TextIO, wait_s: float) -> bool:
    """Wait; whether the stream ended meanwhile (nothing else is ever sent)."""
    readable, _, _ = select.select([stream], [], [], wait_s)
    return bool(readable) and not os.read(stream.fileno(), 1)


if __name__ == "__main__":
    main()
