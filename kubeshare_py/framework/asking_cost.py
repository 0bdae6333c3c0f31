"""What it costs to ask about a shape, beside the rows: in rows, which take about 0.4 us each.

Measured on one core of 2.5 GHz. Nothing here looks at a clock: the same events cost the same, so
that a turn ends at the same place when a history is replayed.
"""

from kubeshare_py.domain.pod import Shape

#: Questions put to any number of rows: some array operations for each plugin.
ASKING = 250
#: Counting the reasons of all rows, beside as much for each row as asking about it.
DIAGNOSING = 200
#: Questions of a new shape, made by each plugin.
_QUESTIONS = 250
#: A line of a required node affinity, for any number of rows, and how many rows add one to it.
_LINE, _ROWS_OF_LINE = 40, 150
#: So many values are looked up in the time of a row; so many tolerations are made and compared.
_VALUES, _TOLERATIONS = 6, 2


def preparing(shape: Shape, rows: int) -> int:
    """What a shape costs the first time that it is asked about all of so many rows."""
    lines = len(shape.node_selector)
    values = 0
    for term in shape.terms or ():
        for line in (*term.labels, *term.fields):
            lines += 1
            values += len(line.values)
    tolerations = len(shape.tolerations) // _TOLERATIONS
    return _QUESTIONS + lines * (_LINE + rows // _ROWS_OF_LINE) + values // _VALUES + tolerations
