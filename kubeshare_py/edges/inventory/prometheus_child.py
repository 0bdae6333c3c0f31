"""The process that queries Prometheus on a timer and reports only changes.

It is a separate process because decoding a large answer would hold the scheduler's event loop. One
JSON line in (`Start`), then a report per query; it ends when its standard input does, so it never
outlives the scheduler.
"""

import gc
import io
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TextIO

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.inventory_reports import (
    Failure,
    ScrapeAccess,
    Start,
    line,
    update_lines,
    used_lines,
    wired_line,
    write_out,
)
from kubeshare_py.inventory.card_use import EVERY_S, USE_SERIES, uses_of_vector
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import NODES_A_PORTION, Remark, Rounds, question, wirings
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import (
    CAPACITY,
    NAME_MATCHER,
    AnswerProblem,
    Matcher,
    Series,
    instant_vector,
    parse_matchers,
    selects,
)

# A `requests` session with limits on the size and time of answers, and a callback for each.


#: The cards of 5,000 nodes with eight each are 20 MB.
MAX_BYTES = 128 * 2**20
#: The most seconds until the whole answer has arrived, however slowly.
MAX_S = 60.0
_PIECE = 2**16
_ERROR = b'{"status":"error"'


class AnswerRefused(requests.RequestException):
    """The answer is not read, or says itself that it is an error."""


class _Error(msgspec.Struct):
    error: str = ""
    errorType: str = ""


def bounded_session(
    on_body: Callable[[bytes], object], *, most_bytes: int = MAX_BYTES, most_s: float = MAX_S
) -> requests.Session:
    """A session that calls `on_body` with the body of each answer.

    Its requests raise AnswerRefused.
    """

    def read(response: requests.Response, **_options: object) -> None:
        body = _body(response, most_bytes, most_s)
        # The rest is read from here; it is no longer compressed.
        response.raw = io.BytesIO(body)
        on_body(body)
        if response.ok and body[: len(_ERROR) + 8].replace(b" ", b"").startswith(_ERROR):
            raise AnswerRefused(_error(body))

    session = requests.Session()
    session.hooks["response"].append(read)
    return session


def _body(response: requests.Response, most_bytes: int, most_s: float) -> bytes:
    body, until = bytearray(), time.monotonic() + most_s
    try:
        for piece in response.raw.stream(_PIECE, decode_content=True):
            body += piece
            if len(body) > most_bytes:
                raise AnswerRefused(f"an answer of more than {most_bytes} bytes")
            if time.monotonic() > until:
                raise AnswerRefused(f"an answer that takes more than {most_s:.0f} s")
    except HTTPError as error:
        raise AnswerRefused(f"{type(error).__name__}: {error}") from error
    except AnswerRefused:
        response.close()
        raise
    return bytes(body)


def _error(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=_Error)
    except (msgspec.DecodeError, RecursionError):
        return "an error that cannot be read"
    return ": ".join(part for part in (found.errorType, found.error) if part) or "an error"


TIMEOUT_S = 30
#: The part of an answer that says that it is partial: VictoriaMetrics at the beginning, others at
#: the end.
_EDGE = 4096
_WARNINGS = re.compile(rb'"warnings":(\[(?:"(?:[^"\\]|\\.)*",?)*\])')
_FAILURES = (requests.RequestException, PrometheusApiClientException, OSError)
_MALFORMED = (LookupError, TypeError, ValueError, RecursionError)
#: The operating system's message in a text of urllib3.
_SYSTEM_ERROR = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")
#: The most characters of an error, and the most jobs, in a report.
_MAX_SHOWN, _MAX_JOBS = 500, 20


class _QueryFailed(Exception):
    """Prometheus gave no usable answer; the text says why."""


def main() -> None:
    """Read `Start`, then query until standard input ends."""
    first = sys.stdin.buffer.readline()
    if not first:
        return
    start = msgspec.json.decode(first, type=Start)
    # Otherwise a third of a reading's time would go to collecting garbage among live objects.
    gc.disable()
    remarks: list[str] = []
    with _session(start.access, remarks) as session:
        client = PrometheusConnect(
            url=start.url.rstrip("/"), session=session, retry=Retry(total=0), timeout=TIMEOUT_S
        )
        evaluator = _Querier(client, start, remarks)
        lines = evaluator.read()
        nodes = evaluator.unwired()
        # A few new nodes are reported together with their wiring; otherwise the wiring follows the
        # cards.
        if nodes and len(nodes) < NODES_A_PORTION and not start.known.cards:
            lines = evaluator.wire(nodes) + lines
        while True:
            write_out(lines)
            gc.collect()
            if _ask_until(evaluator, time.monotonic() + start.interval_s):
                return
            lines = evaluator.read()


def _ask_until(evaluator: "_Querier", until: float) -> bool:
    """Query wirings and what is used until the next reading is due; whether input has ended."""
    nodes = evaluator.unwired() or evaluator.wired_long_ago()
    while nodes:
        write_out(evaluator.wire(nodes))
        if _ended(sys.stdin, 0):
            return True
        nodes = evaluator.unwired() if time.monotonic() < until else ()
    while time.monotonic() < until and (lines := evaluator.used()):
        write_out(lines)
        if _ended(sys.stdin, 0):
            return True
    return _ended(sys.stdin, max(until - time.monotonic(), 0))


def _session(access: ScrapeAccess, remarks: list[str]) -> requests.Session:
    """A session that adds warnings in answers to `remarks`; the client library drops them."""

    session = bounded_session(lambda body: remarks.extend(_remarks(body)))
    session.verify = access.ca_file or True
    # Compressing the answer takes Prometheus longer than sending 20 MB.
    session.headers["Accept-Encoding"] = "identity"
    return session


def _remarks(body: bytes) -> list[str]:
    found = _WARNINGS.search(body[-_EDGE:])
    try:
        remarks = msgspec.json.decode(found[1], type=list[str]) if found else []
    except (msgspec.DecodeError, UnicodeError):
        remarks = ["the answer has warnings that cannot be read"]
    if b'"isPartial":true' in body[:_EDGE]:
        remarks.append("the answer is partial")
    return [f"Prometheus says: {remark}" for remark in remarks]


@dataclass(slots=True)
class _Querier:
    """Queries Prometheus; the session leaves warnings in `remarks`."""

    client: PrometheusConnect
    start: Start
    remarks: list[str]
    _matchers: tuple[Matcher, ...] = field(init=False)
    _known: Reading = field(init=False)
    _rounds: Rounds = field(init=False)
    #: By node, the instances of its collectors that answered in the last reading.
    _answering: dict[NodeName, list[str]] = field(default_factory=dict)
    #: The same, without those whose wiring was queried since left out.
    _collectors: dict[NodeName, list[str]] = field(default_factory=dict)
    #: When what is used of a node's cards is queried next.
    _uses_due: dict[NodeName, float] = field(default_factory=dict)
    _trouble: tuple[str, ...] = ()
    _trouble_with_uses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._matchers = parse_matchers(self.start.selector)
        self._known = self.start.known
        self._rounds = Rounds(self._known)

    def read(self) -> list[bytes]:
        """Query all cards; the lines with what is new."""
        self.remarks.clear()
        self._answering = {}
        try:
            vector = self._query(f"{{{NAME_MATCHER},{self.start.selector}}}")
        except _QueryFailed as problem:
            return [line(Failure(message=str(problem)))]
        known = self._known
        step = next_reading(known, vector, time.monotonic(), self._matchers, unix_now=time.time())
        is_bare = all(series.name != CAPACITY for series in vector)
        hints = _where_cards_are(self.client, self.start.selector) if is_bare else ()
        self._known = step.reading
        self._rounds.take(step.reading, (node for node, _ in step.changed))
        for instance, node in step.reading.collectors.items():
            if node in step.reading.cards and node not in step.reading.silent_since:
                self._answering.setdefault(node, []).append(instance)
        self._collectors = {**self._answering}
        for node in self._uses_due.keys() - self._collectors.keys():
            del self._uses_due[node]
        trouble = *self._trouble, *self._trouble_with_uses
        return update_lines(
            step, known, (*self.remarks, *hints, *trouble, *self._rounds.diagnostics())
        )

    def unwired(self) -> tuple[NodeName, ...]:
        """The nodes with cards whose wiring is unknown."""
        return self._rounds.waiting(self._answering)

    def wired_long_ago(self) -> tuple[NodeName, ...]:
        """The nodes whose wiring may have changed."""
        return self._rounds.again(self._answering)

    def wire(self, nodes: Iterable[NodeName]) -> list[bytes]:
        """Query the wiring of these nodes; the lines with what is new."""
        instances = [one for node in nodes for one in self._answering.pop(node)]
        try:
            vector = self._query(question(instances, self.start.selector))
        except _QueryFailed as problem:
            # No more before the next reading.
            self._answering = {}
            self._trouble = (f"links of cards: {problem}",)
            return []
        self._trouble = ()
        matching = (series for series in vector if selects(self._matchers, series.labels))
        cards = {node: self._known.cards[node] for node in nodes}
        remarks: list[Remark] = []
        found = wirings(matching, cards, remarks.append)
        return wired_line(self._rounds.asked(nodes, found, self._known, remarks))

    def used(self) -> list[bytes]:
        """Query what is used of some nodes' cards; the lines with it, none if none is due."""
        now, due = time.monotonic(), self._uses_due
        late = (node for node in self._collectors if due.get(node, now) <= now)
        nodes = [*islice(late, NODES_A_PORTION)]
        if not nodes:
            return []
        instances = [one for node in nodes for one in self._collectors[node]]
        try:
            vector = self._query(question(instances, self.start.selector, USE_SERIES))
        except _QueryFailed as problem:
            self._uses_due = dict.fromkeys(self._collectors, now + EVERY_S)
            self._trouble_with_uses = (f"use of cards: {problem}",)
            return []
        due.update(dict.fromkeys(nodes, now + EVERY_S))
        self._trouble_with_uses = ()
        found = uses_of_vector(one for one in vector if selects(self._matchers, one.labels))
        return used_lines([(node, found.get(node, ())) for node in nodes])

    def _query(self, query: str) -> list[Series]:
        try:
            self.client.headers = _headers(self.start.access.token_file)
            return instant_vector(self.client.custom_query(query))
        except _FAILURES as problem:
            raise _QueryFailed(_shortened(_why(problem))) from problem
        except AnswerProblem as problem:
            raise _QueryFailed(_shortened(f"not an answer of Prometheus: {problem}")) from problem
        except (LookupError, TypeError) as problem:
            raise _QueryFailed("not an answer of Prometheus: no data.result in it") from problem
        except _MALFORMED as problem:
            raise _QueryFailed(_shortened(f"not an answer of Prometheus: {problem!r}")) from problem


def _shortened(text: str) -> str:
    """The text, encodable and not too long."""
    sent = text.encode(errors="replace").decode()
    return sent if len(sent) <= _MAX_SHOWN else f"{sent[:_MAX_SHOWN]}…"


def _why(problem: Exception) -> str:
    """The error in a few words; for a failed connection, requests' own text has the whole URL."""
    text = str(problem)
    if isinstance(problem, requests.ConnectionError):
        system = _SYSTEM_ERROR.search(text)
        text = text.rpartition("Caused by ")[2] if system is None else system[1]
    return f"{type(problem).__name__}: {text}"


def _where_cards_are(client: PrometheusConnect, selector: str) -> tuple[str, ...]:
    """The jobs with cards that the selector excludes, if it finds none."""
    nothing = f"no {CAPACITY} series matches {{{selector}}}"
    try:
        jobs = client.get_label_values("job", {"match[]": CAPACITY})
        listed = sorted(str(job) for job in jobs)
        others = _shortened(", ".join(listed[:_MAX_JOBS]))
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
