"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kubeshare_cmd.kubectl_parser import COMMANDS, HERE, UsageParser, make_parser

if TYPE_CHECKING:
    from kubeshare_py.edges.cli.state_client import ApiAccess

#: Exit code of a command that needs more than the package kubectl-kubeshare has.
MISSING = 3
#: The options of `usage`.
_USAGE = ("log", "by", "until", "namespace", "output", "no_headers")
_LISTS = ("files", "without", "cordon")
_REPEATED = ("names", "as_group", "as_user_extra")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, and argparse exits with 2 for wrong usage."""
    parser = make_parser()
    given = vars(parser.parse_args(arguments))
    if given.get("command") is None:
        parser.error(f"which command? {', '.join(COMMANDS)}")
    if given["command"] == "why":
        if given.get("names") is None:
            parser.error("why is about a pod: why POD, or why KIND/NAME such as why job/lstm")
        given["names"] = [given["names"]]
    if given["command"] == "usage":
        return _usage(parser, given)
    given |= {name: tuple(given[name]) for name in _REPEATED if name in given}
    # Imported late, because --help and --version need none of it and must be quick.
    from kubeshare_py.edges.cli.state_client import ApiAccess  # noqa: PLC0415

    access = ApiAccess(
        **{one.name: given.pop(one.name) for one in fields(ApiAccess) if one.name in given}
    )
    if given["command"] == "check":
        return _check(parser, given, access)
    if given["command"] in HERE:
        return _with_machine(parser, given, access)
    from kubeshare_py.programs.kubectl_kubeshare import (  # noqa: PLC0415
        Question,
        run,
        usage_error,
    )

    question = Question(**given, access=access)
    if error := usage_error(question):
        parser.error(error)
    return run(question)


def _check(parser: UsageParser, given: Mapping[str, Any], access: "ApiAccess") -> int:
    from kubeshare_py.programs.kubectl_check import CheckQuestion, run  # noqa: PLC0415

    files, output = tuple(given.get("files") or ()), given.get("output", "table")
    if not files:
        parser.error("check needs manifests: -f FILE, or -f - for standard input")
    config, now, offline = (given.get(name) for name in ("config", "now", "offline"))
    if now and offline:
        parser.error("--now asks the scheduler: it does not go with --offline")
    return run(
        CheckQuestion(
            files=files,
            output=output,
            config=config or "",
            offline=bool(offline),
            now=bool(now),
            access=access,
        )
    )


def _usage(parser: UsageParser, given: Mapping[str, Any]) -> int:
    if not given.get("log"):
        parser.error("usage reads an event log: --log DIR")
    try:
        from kubeshare_py.programs.kubectl_usage import UsageQuestion, run  # noqa: PLC0415
    except ModuleNotFoundError:
        sys.stderr.write(
            "Error: usage reads event logs as the scheduler does, which the package "
            "kubectl-kubeshare leaves out: install kubeshare-py in its place\n"
        )
        return MISSING
    options = {name: given[name] for name in _USAGE if name in given}
    since = given.get("since", "")
    options["last_s" if isinstance(since, float) else "since"] = since
    return run(UsageQuestion(**options))


def _with_machine(parser: UsageParser, given: dict[str, Any], access: "ApiAccess") -> int:
    """The commands that run the scheduler's machine, which the package of the command lacks."""
    if problem := _problem(given):
        parser.error(problem)
    try:
        from kubeshare_plugins import IN_TREE  # noqa: PLC0415
        from kubeshare_py.programs import kubectl_history, kubectl_what_if  # noqa: PLC0415
    except ImportError:
        sys.stderr.write(
            f"Error: {given['command']} runs the scheduler's own machine, which the package "
            "kubectl-kubeshare leaves out: install kubeshare-py in its place\n"
        )
        return MISSING
    if given["command"] == "history":
        del given["command"]
        namespace = access.namespace or "default"
        question = kubectl_history.HistoryQuestion(**given, namespace=namespace)
        return kubectl_history.run(question, IN_TREE)
    given |= {name: tuple(given[name]) for name in _LISTS if name in given}
    return kubectl_what_if.run(kubectl_what_if.ForesightQuestion(**given, access=access), IN_TREE)


def _problem(given: Mapping[str, Any]) -> str:
    """What is wrong with the question itself, "" if nothing is."""
    missing = {
        "when": ({"pod"}, "when is about a pod: when POD"),
        "capacity": ({"files"}, "capacity needs manifests: --like FILE"),
        "history": (
            {"subject", "log"},
            "history needs a subject and an event log: history POD --log DIR",
        ),
    }
    command = given["command"]
    needed, sentence = missing.get(command, (set(), ""))
    if not needed <= {name for name, value in given.items() if value is not None}:
        return sentence
    if command == "what-if" and not given.keys() & {*_LISTS, "add_nodes", "profile"}:
        return "what if what? -f FILE, --without, --cordon, --add-nodes or --profile"
    if command == "what-if" and ("add_nodes" in given) != ("like" in given):
        return "--add-nodes N and --like NODE go together"
    return "--until is about --log" if "until" in given and "log" not in given else ""


if __name__ == "__main__":
    sys.exit(main())
