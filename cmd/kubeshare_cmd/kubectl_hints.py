"""What is said of words that a command line of `kubectl kubeshare` should not have."""

from collections.abc import Sequence
from difflib import get_close_matches

_ALIKE = 0.7
#: Kinds before a name, as in `kubectl get job x`; `why` takes them as job/x.
_KINDS = {
    "pod", "pods", "po", "job", "jobs", "deployment", "deployments", "deploy", "replicaset", "rs",
    "statefulset", "sts", "daemonset", "ds", "replicationcontroller", "rc", "sharepod",
}  # fmt: skip
#: What people type who know other commands.
_ELSEWHERE = {
    "version": "it is an option: kubectl kubeshare --version",
    "help": "it is an option: kubectl kubeshare --help",
    "completion": "kubectl completes the plugin's words with `kubectl_complete-kubeshare` on $PATH",
    "get": "cards are shown by `gpus`, pods by `pods`",
    "describe": "`why` says all about a pod",
    "nodes": "cards are shown node by node: gpus --summary",
}


def unknown_command(word: str, known: Sequence[str]) -> str:
    """The sentence about a word in place of a command."""
    hint = f"; {_ELSEWHERE[word]}" if word in _ELSEWHERE else meant(word, known)
    return f'unknown command "{word}"{hint or ": " + ", ".join(known)}'


def unknown_word(command: str, word: str, names: Sequence[str], options: Sequence[str]) -> str:
    """The sentence about a word behind a command and these names."""
    if word.startswith("-"):
        return f"unknown option {word}{meant(word, options)}"
    if command == "check":
        return f'unexpected word "{word}"; did you mean -f {word}?'
    if command == "why" and names and names[0] in _KINDS:
        return f'"{names[0]}" is a kind; did you mean why {names[0]}/{word}?'
    if command == "why":
        return f'unexpected word "{word}"; why is about one pod, or one KIND/NAME'
    return f'unexpected word "{word}"'


def meant(word: str, known: Sequence[str]) -> str:
    """Which of the known words may be meant, as the end of a sentence; "" if none is like it."""
    names = {one.lstrip("-"): one for one in known}
    alike = get_close_matches(word.lstrip("-"), names, n=1, cutoff=_ALIKE)
    return f"; did you mean {names[alike[0]]}?" if alike else ""
