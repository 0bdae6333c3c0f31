"""The process that asks the driver for its cards, on a timer and after each error of a card.

It is a separate process because a call into the driver may never return, or crash it: then it is
killed and restarted, and the collector goes on answering. Its arguments are the seconds between
readings, the seconds until a driver that lost a card is opened again, and the folder below which
the node's own folders are. It writes a JSON line (`CardReport`) per reading and ends when its
standard input does. Modules that it does not import save memory on every node.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict, replace

from kubeshare_py.edges.node.card_reports import CardReport
from kubeshare_py.edges.node.node_probe import NodeProbe
from kubeshare_py.edges.node.nvml_cards import NvmlCards
from kubeshare_py.edges.node.pci_devices import PciDevices
from kubeshare_py.edges.process import idle_memory
from kubeshare_py.node_agent.card_reader import CardReader
from kubeshare_py.node_agent.plausible import plausible
from kubeshare_py.node_agent.rdma import with_rdma

#: Seconds between two checks of whether standard input has ended.
_LOOK_S = 0.5
#: After an error of a card the next reading begins this long (s) after the last: others may follow.
_SOON_S = 0.5
_PR_SET_PDEATHSIG = 1


def main(interval_s: float, reopen_s: float, root: str = "/") -> None:
    """Report cards until standard input ends."""
    _end_with_parent()
    idle_memory.give_back()
    reader, probe, pci = NvmlCards(reopen_s), NodeProbe(root), PciDevices(root)
    while True:
        began = time.monotonic()
        print(json.dumps(asdict(_report(reader, probe, pci))), flush=True)
        if _ended(reader, began, interval_s):
            return


def _end_with_parent() -> None:
    """End with the parent, even during a call into the driver; Linux's prctl(2)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _report(reader: CardReader, probe: NodeProbe, pci: PciDevices) -> CardReport:
    try:
        reading = replace(plausible(reader.read()), features=probe.look())
        ways = pci.ways(card.bus for card in reading.cards)
        return CardReport(reading=with_rdma(reading, pci.rdma(), ways))
    except OSError as error:
        return CardReport(failure=str(error))


def _ended(reader: CardReader, began: float, interval_s: float) -> bool:
    """Wait until the next reading, or briefly after an error; whether standard input ended."""
    due = began + interval_s
    if due <= time.monotonic():
        # Readings that take longer than the interval must not keep errors from being reported.
        reader.wait(0.0)
    while (left := due - time.monotonic()) > 0:
        happened = reader.wait(min(left, _LOOK_S))
        if _stdin_ended(left if happened is None else 0.0):
            return True
        if any(not error.is_application for error in happened or ()):
            due = min(due, began + _SOON_S)
    return _stdin_ended(0.0)


def _stdin_ended(wait_s: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
