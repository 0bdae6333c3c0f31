"""The process that asks Prometheus on a timer and reports only what changed.

It is a process of its own because decoding a large answer would hold the scheduler's event loop.
One JSON line in (`Start`), then one JSON line out per query (`News` or `Failure`); it ends when
its standard input does, so it never outlives the scheduler.
"""

import os
import select
import sys
import time
from collections.abc import Iterator
from typing import TextIO

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3 import Retry

from kubeshare_py.edges.prometheus_reports import Failure, News, Report, Start
from kubeshare_py.inventory.changes import Step, next_reading
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series import NAME_MATCHER, Series
from kubeshare_py.inventory.series_selectors import Matcher, parse_matchers

TIMEOUT_S = 30
#: With 8 cards each, decoding a line takes about 4 ms.
NODES_PER_LINE = 500


def main() -> None:
    """Read `Start`, then query until standard input ends."""
    line = sys.stdin.buffer.readline()
    if not line:
        return
    start = msgspec.json.decode(line, type=Start)
    matchers = parse_matchers(start.selector)
    text = f"{{{NAME_MATCHER},{start.selector}}}"
    reading = start.known
    with _session(start) as session:
        client = PrometheusConnect(
            url=start.url.rstrip("/"), session=session, retry=Retry(total=0), timeout=TIMEOUT_S
        )
        while True:
            report, reading = _ask(client, start, text, matchers, reading)
            for part in _parts(report):
                sys.stdout.buffer.write(msgspec.json.encode(part) + b"\n")
            sys.stdout.buffer.flush()
            if _ended(sys.stdin, start.interval_s):
                return


def _session(start: Start) -> requests.Session:
    session = requests.Session()
    session.verify = start.ca_file or True
    return session


def _ask(
    client: PrometheusConnect,
    start: Start,
    text: str,
    matchers: tuple[Matcher, ...],
    known: Reading,
) -> tuple[Report, Reading]:
    try:
        client.headers = _headers(start.token_file)
        vector = [
            Series(found["metric"], float(found["value"][1])) for found in client.custom_query(text)
        ]
    except (requests.RequestException, PrometheusApiClientException, OSError) as problem:
        return Failure(message=f"{type(problem).__name__}: {problem}"), known
    except (LookupError, TypeError, ValueError) as problem:
        return Failure(message=f"not an answer of Prometheus: {problem!r}"), known
    step = next_reading(known, vector, time.monotonic(), matchers, unix_now=time.time())
    return _news(step, known), step.reading


def _news(step: Step, known: Reading) -> News:
    moved = step.reading.collectors != known.collectors
    return News(
        changed=step.changed,
        silent_since=dict(step.reading.silent_since),
        collectors=dict(step.reading.collectors) if moved else None,
        diagnostics=step.diagnostics,
    )


def _parts(report: Report) -> Iterator[Report]:
    """Cut a long report, so that reading one line never takes the scheduler long."""
    rest = report.changed if isinstance(report, News) else ()
    while len(rest) > NODES_PER_LINE and isinstance(report, News):
        yield News(
            changed=rest[:NODES_PER_LINE],
            silent_since={},
            collectors=None,
            diagnostics=(),
            more=True,
        )
        rest = rest[NODES_PER_LINE:]
        report = msgspec.structs.replace(report, changed=rest)
    yield report


def _headers(token_file: str | None) -> dict[str, str]:
    """The bearer token, read again for each query because the kubelet renews the file."""
    if token_file is None:
        return {}
    with open(token_file, encoding="utf-8") as file:
        return {"Authorization": f"Bearer {file.read().strip()}"}


def _ended(stream: TextIO, wait_s: float) -> bool:
    """Wait; whether the stream ended meanwhile (nothing else is ever sent)."""
    readable, _, _ = select.select([stream], [], [], wait_s)
    return bool(readable) and not os.read(stream.fileno(), 1)


if __name__ == "__main__":
    main()
