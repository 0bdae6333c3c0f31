"""Calls of dialects: whatever a dialect raises, or answers in another form, ends here."""

from collections.abc import Mapping

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import Dialect, NodeKeys, PodAsk
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.printable import beginning, error_text
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

#: The most characters of a wrong answer that are shown.
_SHOWN = 100


def read_by(dialect: Dialect, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
    """The dialect's reading of a pod; of a failed dialect, a problem that names it."""
    try:
        answer: object = dialect.read(pod)
    except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
        return failure(dialect, error_text(error))
    if answer is None or isinstance(answer, InvalidRequest):
        return answer
    if not isinstance(answer, GpuRequest):
        return failure(dialect, f"read answered {_shown(answer)}, which is no GpuRequest")
    if answer.dialect != dialect.name:
        return failure(dialect, f"read answered a request of the dialect {answer.dialect!r}")
    return answer


def results_by(dialect: Dialect, allocation: Allocation) -> Mapping[str, str] | str:
    """The dialect's result annotations; a sentence if it failed."""
    try:
        answer: object = dialect.results(allocation)
    except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
        return str(failure(dialect, error_text(error)))
    if not isinstance(answer, Mapping):
        return str(failure(dialect, f"results answered {_shown(answer)}, which is no mapping"))
    allowed = dialect.result_keys.every
    for key, value in answer.items():
        if key not in allowed:
            return str(failure(dialect, f"{_shown(key)} is none of its result keys"))
        if not isinstance(value, str):
            return str(failure(dialect, f"{key} is {_shown(value)}, which is no text"))
    return answer


def read_back_by(dialect: Dialect, pod: PodAsk) -> Allocation | str | None:
    """What a bound pod holds by the dialect's annotations; a sentence if that cannot be read."""
    try:
        answer: object = dialect.read_back(pod)
    except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
        return str(failure(dialect, error_text(error)))
    if answer is None or isinstance(answer, (Allocation, str)):
        return answer
    return str(failure(dialect, f"read_back answered {_shown(answer)}, which is no Allocation"))


def visibility_by(dialect: Dialect, pod: PodAsk) -> CardVisibility:
    """Which cards the containers may see.

    Of a failed dialect: a share, whose annotation never comes, so that no container starts.
    """
    try:
        answer: object = dialect.visibility(pod)
    except Exception:  # noqa: BLE001 - another distribution's code may raise anything
        return CardVisibility.SHARE
    return answer if isinstance(answer, CardVisibility) else CardVisibility.SHARE


def owns_by(dialect: Dialect, resource: str, node: NodeKeys) -> bool:
    """Whether the dialect owns a contested resource on this node; a failed dialect does not."""
    try:
        answer: object = dialect.owns_on(resource, node)
    except Exception:  # noqa: BLE001 - another distribution's code may raise anything
        return False
    return answer is True


def failure(dialect: Dialect, cause: str) -> InvalidRequest:
    """`dialect X failed: CAUSE`."""
    return InvalidRequest(field=f"dialect {dialect.name}", rule=f"failed: {cause}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the value is the dialect's, and so is its __repr__
        text = f"a {type(value).__name__}"
    return beginning(text, _SHOWN)
