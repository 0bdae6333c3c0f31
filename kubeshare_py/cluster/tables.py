"""The tables that questions are put to: the ledger's own, or an overlay's."""

from typing import Protocol

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.native.native_gpus import NativeGpus, Resources
from kubeshare_py.cluster.what_if import WhatIf


class Tables(Protocol):
    """Columns and their logs.

    `changed` logs rows whose amounts changed, and `relabelled` those whose node object changed.
    """

    @property
    def columns(self) -> Columns:
        """The columns."""

    @property
    def changed(self) -> ChangeLog:
        """The log of rows whose amounts changed."""

    @property
    def relabelled(self) -> ChangeLog:
        """The log of rows whose node object changed."""

    def native_on(self, row: int) -> NativeGpus:
        """The GPUs of a row that the kubelet gives to pods."""

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64; a pod is one of `pods`."""

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows, (k,) int64."""
