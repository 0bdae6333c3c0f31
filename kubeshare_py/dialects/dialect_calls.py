"""Calls of dialects: whatever a dialect raises, or answers in another form, ends here."""

from collections.abc import Callable, Mapping
from typing import ParamSpec

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import Dialect, NodeKeys, PlacedNode, PodAsk, UnreadableHolding
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.printable import error_text, value_text
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

#: The most characters of a wrong answer that are shown.
_SHOWN = 100

P = ParamSpec("P")


class DialectFailed(Exception):
    """A dialect raised; the text is its exception's."""


def read_by(dialect: Dialect, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
    """The dialect's reading of a pod; of a failed dialect, a problem that names it."""
    try:
        answer = _answer(dialect.read, pod)
    except DialectFailed as error:
        return failure(dialect, str(error))
    if answer is None or isinstance(answer, InvalidRequest):
        return answer
    if not isinstance(answer, GpuRequest):
        return failure(
            dialect, f"read answered {value_text(answer, _SHOWN)}, which is no GpuRequest"
        )
    if answer.dialect != dialect.name:
        return failure(dialect, f"read answered a request of the dialect {answer.dialect!r}")
    return answer


def results_by(
    dialect: Dialect, allocation: Allocation, node: PlacedNode
) -> Mapping[str, str] | str:
    """The dialect's result annotations; a sentence if it failed."""
    try:
        answer = _answer(dialect.results, allocation, node)
    except DialectFailed as error:
        return str(failure(dialect, str(error)))
    if not isinstance(answer, Mapping):
        return str(
            failure(dialect, f"results answered {value_text(answer, _SHOWN)}, which is no mapping")
        )
    for key, value in answer.items():
        if not (isinstance(key, str) and dialect.result_keys.are_written(key)):
            return str(failure(dialect, f"{value_text(key, _SHOWN)} is none of its result keys"))
        if not isinstance(value, str):
            return str(failure(dialect, f"{key} is {value_text(value, _SHOWN)}, which is no text"))
    return answer


def read_back_by(dialect: Dialect, pod: PodAsk) -> Allocation | UnreadableHolding | str | None:
    """What a bound pod holds by the dialect's annotations; a sentence if that cannot be read."""
    try:
        answer = _answer(dialect.read_back, pod)
    except DialectFailed as error:
        return str(failure(dialect, str(error)))
    if answer is None or isinstance(answer, (Allocation, UnreadableHolding, str)):
        return answer
    return str(
        failure(dialect, f"read_back answered {value_text(answer, _SHOWN)}, which is no Allocation")
    )


def visibility_by(dialect: Dialect, pod: PodAsk) -> CardVisibility:
    """Which cards the containers may see.

    Of a failed dialect: a share, whose annotation never comes, so that no container starts.
    """
    try:
        answer = _answer(dialect.visibility, pod)
    except DialectFailed:
        return CardVisibility.SHARE
    return answer if isinstance(answer, CardVisibility) else CardVisibility.SHARE


def owns_by(dialect: Dialect, resource: str, node: NodeKeys) -> bool:
    """Whether the dialect owns a contested resource on this node; a failed dialect does not."""
    try:
        answer = _answer(dialect.owns_on, resource, node)
    except DialectFailed:
        return False
    return answer is True


def has_mark_by(dialect: Dialect, mark: str, node: NodeKeys) -> bool:
    """Whether the node has a mark; none has one of a failed dialect."""
    try:
        answer = _answer(dialect.has_mark, mark, node)
    except DialectFailed:
        return False
    return answer is True


def failure(dialect: Dialect, cause: str) -> InvalidRequest:
    """`dialect X failed: CAUSE`."""
    return InvalidRequest(field=f"dialect {dialect.name}", rule=f"failed: {cause}")


def _answer(question: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> object:
    """What the dialect answers; raises DialectFailed if it raises."""
    try:
        return question(*args, **kwargs)
    except Exception as error:
        raise DialectFailed(error_text(error)) from error
