"""Reads Prometheus' answer to an instant query as series, or says what is wrong with it and where.

https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.inventory.series import Series


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
