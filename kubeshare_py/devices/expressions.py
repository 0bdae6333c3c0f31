"""CEL expressions about devices: parsed by cel-python, checked, and made into functions.

The language is larger than what is needed to choose a device, and expressions are written by users:
`compiled` refuses what is not listed here and in `expression_values`, and what takes long. Only the
grammar is cel-python's: its evaluation takes some hundred microseconds a device, and compares
values of different types otherwise than Kubernetes does.

Regular expressions are RE2's. Its time grows with the text and with its program, and "a{0,999}"
alone is 2,000 instructions: so the program is bounded before it is made, and a match before it
runs, and each match is paid for by program and text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import re2
from celpy.celparser import CELParseError, CELParser
from celpy.evaluation import celstr
from lark import Token, Tree

from kubeshare_py.devices.expression_values import (
    FUNCTIONS,
    METHODS,
    CelValue,
    DeviceRead,
    DeviceVariable,
    EvaluationError,
    added,
    compare,
    contained,
    divided,
    equal,
    has_field,
    looked_up,
    multiplied,
    negated,
    remainder,
    subtracted,
    truth,
)
from kubeshare_py.domain.device import Device
from kubeshare_py.domain.remembered import MAX_BYTES, remembered

#: Longer and deeper expressions are refused before they are parsed.
MAX_CHARACTERS = 1500
MAX_NESTING = 16
#: The most operators in each other; `a && b && c` is two.
MAX_DEPTH = 100
#: The most steps for one device; elements of a list in `exists` and its like count one by one.
MAX_STEPS = 250
_MATCH_STEPS = 10
#: The most instructions of a regular expression in RE2, and the most that its counted repetitions
#: may add up to: RE2 writes "a{3}" out as "aaa", and needs 50 ms to find 100,000 of these too many.
MAX_PROGRAM, MAX_REPETITIONS = 4000, 1000
#: The most instructions times bytes of text of one match; each takes up to 3 ns.
MAX_MATCH = 1_000_000
#: So many instructions times bytes take as long as a step.
_MATCHED_IN_A_STEP = 100
#: The bytes that RE2 may take for one regular expression, and how many are kept. The memory bounds
#: the program, too, so that RE2 stops while it makes one that is too large.
_MATCH_BYTES, _PROGRAMS_KEPT = 1 << 18, 64
#: The most classes such as "\\pL" in one, which take RE2 a millisecond each, and steps to make the
#: program of a character.
_MAX_CLASSES, _MAKING = 16, 20
_CLASS = re.compile(r"\\[pP]")
_REPETITION = re.compile(r"\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")
#: The most expressions that are kept as functions, and the bytes of their texts: these functions
#: take up to a hundred times as much.
_KEPT, _KEPT_BYTES = 256, MAX_BYTES // 100

_Scope = Mapping[str, Callable[[], CelValue]]
_Step = Callable[[_Scope], CelValue]
_CelTree = Tree[Token]
_CelPart = _CelTree | Token
_BINARY: Mapping[str, Callable[[CelValue, CelValue], CelValue]] = {
    "relation_lt": lambda left, right: compare(left, right) < 0,
    "relation_le": lambda left, right: compare(left, right) <= 0,
    "relation_gt": lambda left, right: compare(left, right) > 0,
    "relation_ge": lambda left, right: compare(left, right) >= 0,
    "relation_eq": equal,
    "relation_ne": lambda left, right: not equal(left, right),
    "relation_in": contained,
    "addition_add": added,
    "addition_sub": subtracted,
    "multiplication_mul": multiplied,
    "multiplication_div": divided,
    "multiplication_mod": remainder,
}


class UnsupportedExpression(ValueError):
    """The expression is not implemented, or not an expression."""


@dataclass(frozen=True, slots=True)
class DeviceExpression:
    """A checked expression; `steps` bounds the time that a device takes."""

    steps: int
    _value: _Step

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the device satisfies it. Raises EvaluationError."""
        variable = DeviceVariable(driver, device)
        return truth(self._value({"device": lambda: variable}))

    def judged(self, driver: str, device: Device) -> "Judgement":
        """Whether the device satisfies it, or why that cannot be said."""
        variable = DeviceVariable(driver, device)
        try:
            verdict: bool | str = truth(self._value({"device": lambda: variable}))
        except EvaluationError as error:
            verdict = str(error)
        return Judgement(verdict, tuple(variable.reads), variable.matching)


class Judgement(NamedTuple):
    """A verdict, or why there is none; what was read of the device; and steps of matches in it."""

    verdict: bool | str
    reads: tuple[DeviceRead, ...]
    matching: int


@remembered(_KEPT, _KEPT_BYTES)
def compiled(text: str) -> DeviceExpression:
    """The expression. Raises UnsupportedExpression, which names what is not understood."""
    if len(text) > MAX_CHARACTERS:
        raise UnsupportedExpression(f"more than {MAX_CHARACTERS} characters")
    if _nesting(text) > MAX_NESTING:
        raise UnsupportedExpression(f"more than {MAX_NESTING} parentheses in each other")
    try:
        tree = CELParser().parse(text)
    except CELParseError as error:
        raise UnsupportedExpression("not in the grammar of cel-python") from error
    compiler = _Compiler()
    step = compiler.step(tree, frozenset({"device"}))
    if compiler.steps > MAX_STEPS:
        raise UnsupportedExpression(f"more than {MAX_STEPS} steps")
    return DeviceExpression(compiler.steps, step)


def _nesting(text: str) -> int:
    """The most brackets that are open at once; those in texts count too."""
    open_ones = most = 0
    for one in text:
        if one in "([{":
            open_ones += 1
            most = max(most, open_ones)
        elif one in ")]}":
            open_ones -= 1
    return most


class _Compiler:
    """Makes one function of each part of a tree, and counts their steps."""

    def __init__(self) -> None:
        self.steps = 0
        self._depth = 0

    def step(self, part: _CelPart, names: frozenset[str]) -> _Step:
        """The function of a part in which these variables are known."""
        node = _innermost(part)
        kind = str(node.data)
        self.steps += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsupportedExpression(f"more than {MAX_DEPTH} levels")
        make = getattr(self, f"_{kind}", None)
        if make is None:
            raise UnsupportedExpression(_TOLD.get(kind, kind))
        found: _Step = make(_children(node), names)
        self._depth -= 1
        return found

    def _expr(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        condition, positive, negative = (self.step(one, names) for one in children)
        return lambda scope: positive(scope) if truth(condition(scope)) else negative(scope)

    def _conditionalor(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        return _decided([self.step(one, names) for one in children], True)

    def _conditionaland(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        return _decided([self.step(one, names) for one in children], False)

    def _relation(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        operator, right_node = children
        operate = _BINARY[str(_tree(operator).data)]
        left, right = self.step(_children(operator)[0], names), self.step(right_node, names)
        return lambda scope: operate(left(scope), right(scope))

    _addition = _multiplication = _relation

    def _unary(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        operator, operand = children
        value = self.step(operand, names)
        if _tree(operator).data == "unary_not":
            return lambda scope: not truth(value(scope))
        return lambda scope: negated(value(scope))

    def _member_dot(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        value, field = self.step(children[0], names), str(children[1])
        return lambda scope: looked_up(value(scope), field)

    def _member_index(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        value, key = (self.step(one, names) for one in children)
        return lambda scope: looked_up(value(scope), key(scope))

    def _member_dot_arg(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        target, method = children[0], str(children[1])
        arguments = _arguments(children[2:])
        if method == "bind" and _identifier(target) == "cel":
            return self._bind(arguments, names)
        if method in _FOLDS and len(arguments) == len(("name", "body")):
            return self._fold(method, target, arguments, names)
        if method == "matches" and len(arguments) == 1:
            self.steps += _MATCH_STEPS
            text, pattern = (self.step(one, names) for one in (target, arguments[0]))
            return lambda scope: _matches(text(scope), pattern(scope), scope["device"]())
        function = METHODS.get((method, len(arguments)))
        if function is None:
            raise UnsupportedExpression(f"function {method}")
        steps = [self.step(one, names) for one in (target, *arguments)]
        return lambda scope: function(*(one(scope) for one in steps))

    def _ident_arg(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        name, arguments = str(children[0]), _arguments(children[1:])
        if name == "has" and len(arguments) == 1:
            return self._has(arguments[0], names)
        function = FUNCTIONS.get((name, len(arguments)))
        if function is None:
            raise UnsupportedExpression(f"function {name}")
        steps = [self.step(one, names) for one in arguments]
        return lambda scope: function(*(one(scope) for one in steps))

    def _has(self, argument: _CelPart, names: frozenset[str]) -> _Step:
        node = _innermost(argument)
        if node.data != "member_dot":
            raise UnsupportedExpression("has() of something else than a field")
        target, field = _children(node)
        value, name = self.step(target, names), str(field)
        return lambda scope: has_field(value(scope), name)

    def _bind(self, arguments: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        try:
            variable, given, within = arguments
        except ValueError as error:
            raise UnsupportedExpression("function bind") from error
        name = _variable(variable)
        value, body = self.step(given, names), self.step(within, names | {name})
        return lambda scope: body({**scope, name: _once(value, scope)})

    def _fold(
        self, method: str, target: _CelPart, arguments: Sequence[_CelPart], names: frozenset[str]
    ) -> _Step:
        node, name = _innermost(target), _variable(arguments[0])
        if node.data != "list_lit":
            raise UnsupportedExpression(f"{method} of something else than a list in the expression")
        elements = [self.step(one, names) for one in _arguments(_children(node))]
        before = self.steps
        body = self.step(arguments[1], names | {name})
        self.steps += (self.steps - before) * max(0, len(elements) - 1)

        def each(scope: _Scope) -> list[_Step]:
            return [_bound(body, scope, name, one) for one in elements]

        return lambda scope: _FOLDS[method](each(scope), scope)

    def _list_lit(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        elements = [self.step(one, names) for one in _arguments(children)]
        return lambda scope: tuple([one(scope) for one in elements])

    def _ident(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        name = str(children[0])
        if name not in names:
            raise UnsupportedExpression(f"name {name}")
        return lambda scope: scope[name]()

    def _literal(self, children: Sequence[_CelPart], names: frozenset[str]) -> _Step:
        value = _literal_value(Token("", "") if isinstance(children[0], Tree) else children[0])
        return lambda scope: value


#: Parts that do something although they have one child.
_OPERATIONS = frozenset({"list_lit", "ident", "literal", "ident_arg"})
_TOLD = {
    "member_object": "messages",
    "map_lit": "maps in braces",
    "mapinits": "maps in braces",
    "dot_ident": "names that begin with a dot",
    "dot_ident_arg": "names that begin with a dot",
}


def _decided(steps: Sequence[_Step], by: bool) -> _Step:
    """|| (by True) or &&: one deciding operand hides errors of the others."""

    def combine(scope: _Scope) -> CelValue:
        failed: EvaluationError | None = None
        for one in steps:
            try:
                if truth(one(scope)) is by:
                    return by
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not by

    return combine


def _only_one(steps: Sequence[_Step], scope: _Scope) -> CelValue:
    return sum([truth(one(scope)) for one in steps]) == 1


_FOLDS: Mapping[str, Callable[[Sequence[_Step], _Scope], CelValue]] = {
    "all": lambda steps, scope: _decided(steps, False)(scope),
    "exists": lambda steps, scope: _decided(steps, True)(scope),
    "exists_one": _only_one,
}


def _once(value: _Step, scope: _Scope) -> Callable[[], CelValue]:
    """The value of a bound variable, computed when it is first asked for."""
    known: list[CelValue] = []

    def get() -> CelValue:
        if not known:
            known.append(value(scope))
        return known[0]

    return get


def _bound(body: _Step, scope: _Scope, name: str, element: _Step) -> _Step:
    return lambda _: body({**scope, name: _once(element, scope)})


def _matches(text: CelValue, pattern: CelValue, variable: CelValue) -> CelValue:
    """Whether a regular expression matches; `variable` counts what that takes."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise EvaluationError("no such overload: matches of values of these types")
    assert isinstance(variable, DeviceVariable)
    made = _program.cache_info().misses
    program, encoded = _program(pattern), text.encode()
    if _program.cache_info().misses > made:
        variable.matching += _MAKING * len(pattern)
    if isinstance(program, str):
        raise EvaluationError(program)
    size: int = program.programsize
    if size * len(encoded) > MAX_MATCH:
        raise EvaluationError(
            f"a regular expression of {size} instructions for a text of {len(encoded)} bytes:"
            f" more than {MAX_MATCH} in all"
        )
    variable.matching += size + size * len(encoded) // _MATCHED_IN_A_STEP
    return program.search(encoded) is not None


@lru_cache(_PROGRAMS_KEPT)
def _program(pattern: str) -> "re2._Regexp | str":
    """RE2's program, or why there is none: it would be too large, or RE2 does not understand it."""
    too_large = f"a regular expression of more than {MAX_PROGRAM} instructions"
    counts = (int(most or least or 0) for least, most in _REPETITION.findall(pattern))
    if sum(counts) > MAX_REPETITIONS:
        return f"a regular expression with more than {MAX_REPETITIONS} repetitions"
    if len(pattern) > MAX_CHARACTERS:
        return f"a regular expression of more than {MAX_CHARACTERS} characters"
    if len(_CLASS.findall(pattern)) > _MAX_CLASSES:
        return f"a regular expression with more than {_MAX_CLASSES} classes of Unicode"
    options = re2.Options()
    options.max_mem, options.log_errors = _MATCH_BYTES, False
    try:
        program = re2.compile(pattern.encode(), options)
    except re2.error as error:
        if b"too large" in error.args[0]:
            return too_large
        return "a regular expression that RE2 does not understand"
    return too_large if program.programsize > MAX_PROGRAM else program


def _literal_value(token: Token) -> CelValue:
    match token.type:
        case "STRING_LIT" | "MLSTRING_LIT":
            try:
                text = str(celstr(token))
            except ValueError as error:
                raise UnsupportedExpression("characters that Unicode does not have") from error
            if any("\ud800" <= one <= "\udfff" for one in text):
                # RE2 and CEL's texts are UTF-8, which has none. No device's text has one either.
                raise UnsupportedExpression("halves of surrogate pairs")
            return text
        case "BOOL_LIT":
            return str(token) == "true"
        case "INT_LIT":
            number = int(str(token), 16 if "x" in token else 10)
            if not -(1 << 63) <= number < 1 << 63:
                raise UnsupportedExpression("integers of more than 64 bits")
            return number
        case other:
            raise UnsupportedExpression(
                {
                    "UINT_LIT": "unsigned integers",
                    "FLOAT_LIT": "floating point numbers",
                    "BYTES_LIT": "bytes",
                    "NULL_LIT": "null",
                }.get(other, other)
            )


def _children(part: _CelPart) -> list[_CelPart]:
    """The parts of a part; an optional one that is absent is left out."""
    children = part.children if isinstance(part, Tree) else []
    return [one for one in children if isinstance(one, Tree | Token)]


def _tree(part: _CelPart) -> _CelTree:
    """The part, which the grammar makes a tree."""
    if isinstance(part, Tree):
        return part
    raise UnsupportedExpression(str(part))


def _arguments(children: Sequence[_CelPart]) -> list[_CelPart]:
    """The expressions of an `exprlist`, which is absent if there are none."""
    return _children(children[0]) if children else []


def _innermost(part: _CelPart) -> _CelTree:
    """The part without the levels of the grammar around it that do nothing."""
    node = _tree(part)
    while str(node.data) not in _OPERATIONS:
        children = _children(node)
        if len(children) != 1 or not isinstance(children[0], Tree):
            break
        node = children[0]
    return node


def _identifier(part: _CelPart) -> str:
    """The name that a part is; "" if it is something else."""
    inner = _innermost(part)
    return str(inner.children[0]) if inner.data == "ident" else ""


def _variable(part: _CelPart) -> str:
    name = _identifier(part)
    if not name:
        raise UnsupportedExpression("a variable that is no name")
    return name
