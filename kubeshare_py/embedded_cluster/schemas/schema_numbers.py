"""Numbers against a schema: ranges, bounds, multiples."""

from decimal import Decimal

from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause
from kubeshare_py.embedded_cluster.schemas.schema_causes import homeless
from kubeshare_py.embedded_cluster.schemas.schema_formats import recognised

_INT32, _INT64 = 1 << 31, 1 << 63
_PLAIN_BELOW, _PLAIN_DIGITS = 4, 6


def number_causes(value: float, schema: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a number."""
    found = []
    kind, form = schema.get("type"), recognised(schema)
    limit = _INT32 if form == "int32" else _INT64
    if kind == "integer" and (isinstance(value, float) or not -limit <= value < limit):
        shown = f"with format {form}" if form else "(default format)"
        found.append(homeless(f"Checked value must be of type integer {shown} in {path}"))
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1:
        shown = _bound(value, factor)
        found.append(_wrong(path, value, f"be a multiple of {shown}"))
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        found.append(_wrong(path, value, f"be {words} {_bound(value, least)}"))
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        found.append(_wrong(path, value, f"be {words} {_bound(value, most)}"))
    return found


def _wrong(path: str, value: float, text: str) -> StatusCause:
    shown = _bound(value, value)
    return StatusCause(field=path, message=f"Invalid value: {shown}: {path} in body should {text}")


def _bound(value: float, bound: float) -> str:
    """A bound as Go prints it: integers plainly, floats as 1.5, 10, 1e+06."""
    if isinstance(value, int):
        return str(int(bound))
    exact = Decimal(repr(float(bound))).normalize()
    first, *rest = exact.as_tuple().digits
    if -_PLAIN_BELOW <= exact.adjusted() < _PLAIN_DIGITS:
        return f"{exact:f}"
    mantissa = f"{'-' * exact.is_signed()}{first}" + "".join(map(str, [".", *rest] if rest else []))
    return f"{mantissa}e{exact.adjusted():+03d}"
