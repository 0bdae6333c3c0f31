"""The metrics of collectors about cards, as series of an instant vector."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.card_reading import ReadinessReport
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARD_BYTES, CARD_INDEX, CARD_NAME
from kubeshare_py.inventory.card_uuid import uuid_problem

# A collector's own labels on a series, without those of the scrape configuration.


EXPORTED = "exported_"


def own_label(labels: Mapping[str, str], name: str) -> str:
    """The collector's value of a label; "" if it has none.

    Without `honor_labels`, a label that the scrape configuration sets too is renamed:
    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config.
    """
    return labels.get(EXPORTED + name) or labels.get(name, "")


# Reads one `gpu_capacity` series as a card of a node, or as a problem.


NAME = "gpu_capacity"

#: The most digits of an amount within its bound; longer strings would only cost time.
_MAX_DIGITS = 19
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class CardOfNode:
    """A card with its node."""

    node: NodeName
    card: Gpu


@dataclass(frozen=True, slots=True)
class SampleProblem:
    """A series that names no card. `node` and `uuid` are empty if the series lacks them."""

    node: NodeName
    uuid: GpuUuid
    label: str
    rule: str
    #: The collector's address, `host:port`; "" if unknown.
    instance: str = ""

    def __str__(self) -> str:
        reported_by = f" (reported by {self.instance})" if self.instance else ""
        card = f"{self.uuid or '?'} of node {self.node or '?'}{reported_by}"
        return f"{card}: label {self.label} {self.rule}"


def read_series(
    labels: Mapping[str, str],
    readiness: Callable[[NodeName, GpuUuid], ReadinessReport] | None = None,
) -> CardOfNode | SampleProblem:
    """The card that one series describes, as healthy.

    `readiness` gives the back-ends' readiness, which other series report.
    """
    node = NodeName(own_label(labels, "node"))
    uuid = GpuUuid(own_label(labels, "uuid"))
    model = own_label(labels, "model")

    def problem(label: str, rule: str) -> SampleProblem:
        return SampleProblem(node, uuid, label, rule, labels.get("instance", ""))

    for label, text in (("node", node), ("uuid", uuid), ("model", model)):
        rule = _name_problem(text) or (uuid_problem(text) if label == "uuid" else "")
        if rule:
            return problem(label, rule)
    memory, index = own_label(labels, "memory"), own_label(labels, "index")
    if not _is_amount(memory) or int(memory) == 0:
        return problem("memory", f"{_shown(memory)} is not a number of bytes above 0")
    if not _is_amount(index):
        return problem("index", f"{_shown(index)} is not a number")
    for label, bound, amount in (("memory", CARD_BYTES, memory), ("index", CARD_INDEX, index)):
        if not bound.allows(int(amount)):
            return problem(label, bound.problem(int(amount)))
    card = Gpu(
        uuid=uuid,
        index=int(index),
        model=model.replace(" ", "-"),
        memory_bytes=int(memory),
        readiness=readiness(node, uuid) if readiness is not None else (),
    )
    return CardOfNode(node, card)


def _name_problem(text: str) -> str:
    if not text:
        return "is missing"
    if not CARD_NAME.allows(len(text)):
        return f"has {len(text)} characters, {CARD_NAME.most} are allowed"
    return ""


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


UP = "up"
CAPACITY = NAME
#: Exists only for a card's present faults.
FAULT = "kubeshare_gpu_fault"
#: How many cards a collector lists; also 0.
CARDS = "kubeshare_collector_cards"
#: How many of them have no fault; a series for each healthy card would be half of an answer.
HEALTHY = "kubeshare_collector_healthy_cards"
#: What isolation back-ends lack: for how many cards of a node, and for which single cards.
OF_NODE = "kubeshare_collector_isolation"
OF_CARD = "kubeshare_gpu_isolation"
#: The collectors' metrics about cards; `up` is written by the scraper.
CARD_SERIES = (CAPACITY, FAULT, CARDS, HEALTHY, OF_NODE, OF_CARD)
#: A PromQL matcher of all metrics that are read, and no others.
NAME_MATCHER = f'__name__=~"{"|".join((UP, *CARD_SERIES))}"'


@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector; its labels include `__name__`."""

    labels: Mapping[str, str]
    value: float

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.labels.get("__name__", "")

    @property
    def instance(self) -> str:
        """The collector's address, `host:port`."""
        return self.labels.get("instance", "")

    def own(self, label: str) -> str:
        """The collector's own value of a label; "" if it has none."""
        return own_label(self.labels, label)


# Reads Prometheus' answer to an instant query as series, or says what is wrong with it and where.
#
# https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries


class AnswerProblem(ValueError):
    """The answer is no instant vector; the text begins with the place in it."""


class _VectorSample(msgspec.Struct):
    metric: dict[str, str]
    #: Unix time (s) and the number, as text.
    value: Annotated[list[float | str], Meta(min_length=2, max_length=2)]


def instant_vector(result: object) -> list[Series]:
    """The series of a decoded `data.result`; raises AnswerProblem if any is bad."""
    try:
        samples = msgspec.convert(result, list[_VectorSample])
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        raise AnswerProblem(f"data.result{place.rstrip('`')}: {rule}") from error
    return [_series(sample, at) for at, sample in enumerate(samples)]


def _series(sample: _VectorSample, at: int) -> Series:
    try:
        # Lone surrogates, which JSON can hold and UTF-8 cannot.
        "".join(sample.metric.values()).encode()
        return Series(sample.metric, float(sample.value[1]))
    except UnicodeEncodeError as error:
        raise AnswerProblem(f"data.result[{at}].metric: is not Unicode") from error
    except ValueError as error:
        shown = str(sample.value[1])[:40]
        raise AnswerProblem(f"data.result[{at}].value: {shown!r} is not a number") from error


# Prometheus series selectors: `name{label="value", other=~"regex"}`.
#
# Syntax: https://prometheus.io/docs/prometheus/latest/querying/basics/#time-series-selectors.
# Regular expressions are anchored at both ends, as there; Python's dialect stands in for RE2.


_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*
    ("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*""",
    re.VERBOSE,
)


class SelectorProblem(ValueError):
    """Prometheus would refuse the selector because of `rule`, at character `position` from 1."""

    def __init__(self, position: int, rule: str) -> None:
        self.position = position
        self.rule = rule
        super().__init__(f"1:{position}: parse error: {rule}")


class Comparison(StrEnum):
    """How a matcher compares."""

    EQUAL = "="
    UNEQUAL = "!="
    MATCHING = "=~"
    NOT_MATCHING = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label; an absent label counts as an empty one."""

    label: str
    comparison: Comparison
    value: str

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether this condition holds for a series with these labels."""
        text = labels.get(self.label, "")
        match self.comparison:
            case Comparison.EQUAL:
                return text == self.value
            case Comparison.UNEQUAL:
                return text != self.value
            case Comparison.MATCHING:
                return re.fullmatch(self.value, text) is not None
            case Comparison.NOT_MATCHING:
                return re.fullmatch(self.value, text) is None


def selects(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold."""
    return all(matcher.accepts(labels) for matcher in matchers)


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The conditions of an instant vector selector, the metric's name being one on `__name__`.

    Raises SelectorProblem, also for a selector that would select everything.
    """
    found = _NAME.match(text)
    matchers: tuple[Matcher, ...] = ()
    if found:
        matchers = (Matcher("__name__", Comparison.EQUAL, found[1]),)
    at = found.end() if found else len(text) - len(text.lstrip())
    rest = text[at:].rstrip()
    if rest:
        if not rest.startswith("{"):
            raise SelectorProblem(at + 1, f"unexpected {rest[0]!r}")
        if not rest.endswith("}"):
            raise SelectorProblem(at + len(rest), "unexpected end of input inside braces")
        matchers += parse_matchers(rest[1:-1], at + 1)
    if not any(not matcher.accepts({}) for matcher in matchers):
        raise SelectorProblem(
            1, "vector selector must contain at least one non-empty matcher" if rest else "no query"
        )
    return matchers


def parse_matchers(text: str, offset: int = 0) -> tuple[Matcher, ...]:
    """The conditions between the braces of a selector; raises SelectorProblem."""
    matchers: list[Matcher] = []
    at = 0
    while text[at:].strip():
        found = _MATCHER.match(text, at)
        if found is None:
            raise SelectorProblem(offset + at + 1, "expected label, operator and quoted value")
        matchers.append(_matcher(found, offset))
        at = found.end()
        if at < len(text):
            if text[at] != ",":
                raise SelectorProblem(offset + at + 1, f"unexpected {text[at]!r}")
            at += 1
    return tuple(matchers)


def _matcher(found: re.Match[str], offset: int) -> Matcher:
    label, comparison, quoted = found.groups()
    value = quoted[1:-1] if quoted[0] == "`" else str(ast.literal_eval(quoted))
    if "~" in comparison:
        try:
            re.compile(value)
        except re.error as problem:
            position = offset + found.start(3) + 1
            raise SelectorProblem(position, f"error parsing regexp: {problem}") from problem
    return Matcher(label, Comparison(comparison), value)
