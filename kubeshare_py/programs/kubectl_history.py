"""`kubectl kubeshare history`: what happened to a pod, on a node, a card or in a namespace.

The sessions of an event log are run again, so that the scores of each decision are those that the
plugins gave then.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.event_log.log_folder import (
    LoggedSession,
    ReplaySettings,
    UnusableLog,
    sessions,
)
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.event_log.history import HistorySubject, LoggedHistory, SubjectKind
from kubeshare_py.event_log.replay import Replay
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.terminal.documents import complain, written
from kubeshare_py.terminal.history_table import history_lines
from kubeshare_py.views.history import HistoryEntry

OK, NOTHING, UNUSABLE = 0, 1, 2
_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), SubjectKind.POD),
    **dict.fromkeys(("node", "nodes", "no"), SubjectKind.NODE),
    **dict.fromkeys(("gpu", "gpus"), SubjectKind.GPU),
    **dict.fromkeys(("namespace", "namespaces", "ns"), SubjectKind.NAMESPACE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuestion:
    """`subject` is POD, or node/NAME, gpu/UUID, namespace/NAME or pod/NAME; `log` a folder.

    `session` is one of its sessions, "" for all; `until` is a time, or seconds since a session's
    beginning. Pods without a namespace are of `namespace`.
    """

    subject: str
    log: str
    session: str = ""
    until: str = ""
    output: str = "table"
    namespace: str = "default"


def subject_of(text: str, namespace: str) -> HistorySubject:
    """Read a subject; ValueError names the kinds."""
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    found = _KINDS.get(kind.lower())
    if found is None or not name:
        raise ValueError(f"{text!r} is not POD, node/NAME, gpu/UUID or namespace/NAME")
    if found is SubjectKind.POD and "/" not in name:
        name = f"{namespace}/{name}"
    return HistorySubject(found, name)


def run(question: HistoryQuestion, in_tree: Mapping[str, PluginFactory]) -> int:
    """Answer on stdout, failures on stderr; the exit code."""
    return answer(question, in_tree, Console(), Console(stderr=True))


def answer(
    question: HistoryQuestion, in_tree: Mapping[str, PluginFactory], out: Console, err: Console
) -> int:
    """0 if anything happened, 1 if the log shows nothing, 2 if it cannot be used."""
    damage: list[str] = []
    try:
        subject = subject_of(question.subject, question.namespace)
        entries = list(_entries(question, subject, with_entry_points(in_tree), damage))
    except (UnusableLog, ValueError) as error:
        complain(err, str(error))
        return UNUSABLE
    for one in damage:
        complain(err, one, "Warning")
    _print(question, entries, out)
    if not entries:
        err.print(Text(f"The log shows nothing of {printable(question.subject)}."))
    return OK if entries else NOTHING


def _entries(
    question: HistoryQuestion,
    subject: HistorySubject,
    factories: Mapping[str, PluginFactory],
    damage: list[str],
) -> Iterator[HistoryEntry]:
    """Of all sessions that can be read. Raises UnusableLog if that is none."""
    folder, history = Path(question.log), LoggedHistory(subject)
    names = [question.session] if question.session else [one.name for one in sessions(folder)]
    read = 0
    for name in names:
        settings = ReplaySettings(
            folder=folder, session=name, until=question.until, progress=_progress
        )
        try:
            session = LoggedSession(settings)
            replay = Replay(session.header, factories)
        except UnusableLog as error:
            damage.append(str(error))
            continue
        except ConfigurationError as error:
            damage.append(f"{folder / name}: {error}")
            continue
        read += 1
        for logged in session.events():
            yield from history.play(replay, logged, session.clock.text(logged.now))
        if session.report.damage:
            damage.append(session.report.damage)
    if not read:
        raise UnusableLog("; ".join(damage))


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _print(question: HistoryQuestion, entries: list[HistoryEntry], out: Console) -> None:
    if question.output in ("json", "yaml"):
        out.file.write(written({"entries": entries}, question.output))
        return
    for line in history_lines(entries, out.width if out.is_terminal else None):
        out.print(line, soft_wrap=True)
