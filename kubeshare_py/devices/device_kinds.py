"""Kinds of devices for some claims: devices of one kind are interchangeable in their search."""

from collections.abc import Mapping, Sequence

import numpy as np

from kubeshare_py.devices.alike import Numbers, alike
from kubeshare_py.devices.device_reads import DeviceRead
from kubeshare_py.devices.device_table import DeviceFlags, DeviceTable
from kubeshare_py.devices.table_verdicts import NO, YES, TableVerdicts
from kubeshare_py.domain.devices.resource_claim import DeviceClass, ResourceClaim


def device_kinds(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    table: DeviceTable,
    known: TableVerdicts,
) -> tuple[Numbers, bool]:
    """The kind of each device, (devices,); 0 for devices that satisfy no request.

    With it whether all verdicts are yes or no: otherwise the order of devices decides too.
    """
    asked: dict[tuple[str, ...], None] = {}
    read: dict[DeviceRead, None] = {}
    for claim in claims:
        for one in (one for alternatives in claim.requests for one in alternatives):
            asked[(*classes[one.device_class].selectors, *one.selectors)] = None
        for constraint in claim.constraints:
            read[DeviceRead("attributes", constraint.domain, constraint.name)] = None
    verdicts = [known.all_of(table, expressions) for expressions in asked]
    concerned: DeviceFlags = np.zeros(len(table.devices), np.bool_)
    is_sure = True
    for verdict in verdicts:
        concerned |= verdict != NO
        is_sure &= bool(((verdict == NO) | (verdict == YES)).all())
    at = np.flatnonzero(concerned)
    columns = [*verdicts, table.held.astype(np.int64), table.states()]
    columns += [table.column(one) for one in read]
    _, groups = alike([column[at] for column in columns], len(at))
    kinds = np.zeros(len(table.devices), np.int64)
    kinds[at] = 1 + groups
    return kinds, is_sure
