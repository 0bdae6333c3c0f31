"""CEL expressions about a device mean what they mean to kube-scheduler.

The values in the table are those of Kubernetes 1.36 (k8s.io/dynamic-resource-allocation/cel).
"""

import pytest

from kubeshare_py.devices.expression_values import EvaluationError
from kubeshare_py.devices.expressions import (
    MAX_CHARACTERS,
    MAX_STEPS,
    Judgement,
    UnsupportedExpression,
    compiled,
)
from kubeshare_py.domain.device import Device, DeviceAttribute, DeviceCapacity

D = "gpu.example.com"
DEVICE = Device(
    name="gpu-0",
    attributes=(
        DeviceAttribute(D, "model", text="A100"),
        DeviceAttribute(D, "index", 3),
        DeviceAttribute(D, "healthy", flag=True),
        DeviceAttribute(D, "driverVersion", version="535.104.5"),
        DeviceAttribute("x.example.com", "zone", text="a"),
    ),
    capacity=(DeviceCapacity(D, "memory", "40Gi"),),
)
#: What Kubernetes answers; an error ends the search for devices.
KUBERNETES = r"""
true  true
true  device.driver == "gpu.example.com"
true  device.attributes["gpu.example.com"].model == "A100"
false device.attributes["gpu.example.com"].model == 5
true  device.attributes["gpu.example.com"].model != 5
error device.attributes["gpu.example.com"].missing == "x"
false has(device.attributes["gpu.example.com"].missing)
true  has(device.attributes["gpu.example.com"].model)
false has(device.attributes["other.domain"].model)
true  has(device.driver)
true  "model" in device.attributes["gpu.example.com"]
false "model" in device.attributes["other.domain"]
false "other.domain" in device.attributes
true  "gpu.example.com" in device.attributes
true  device.attributes["gpu.example.com"]["model"] == "A100"
true  device.attributes["gpu.example.com"].index < 5
true  device.attributes["gpu.example.com"].index >= 3 && true
error device.attributes["gpu.example.com"].index < "x"
true  device.attributes["gpu.example.com"].healthy
false !device.attributes["gpu.example.com"].healthy
error device.attributes["gpu.example.com"].index
true  device.attributes["gpu.example.com"].missing || true
true  true || device.attributes["gpu.example.com"].missing
false device.attributes["gpu.example.com"].missing == 1 && false
error device.attributes["gpu.example.com"].missing == 1 && true
error device.attributes["gpu.example.com"].missing == 1 ? true : false
true  device.attributes["gpu.example.com"].healthy ? true : false
true  device.attributes["gpu.example.com"].model in ["A100", "H100"]
false device.attributes["gpu.example.com"].model in ["H100"]
true  device.attributes["gpu.example.com"].index in [1, 2, 3]
false device.attributes["gpu.example.com"].model in [1, 2]
true  device.attributes["gpu.example.com"].model.startsWith("A")
true  device.attributes["gpu.example.com"].model.endsWith("00")
true  device.attributes["gpu.example.com"].model.contains("10")
false device.attributes["gpu.example.com"].model.matches("^a.*$")
true  device.attributes["gpu.example.com"].model.lowerAscii().matches("^a.*$")
true  device.attributes["gpu.example.com"].model.matches("00")
error device.attributes["gpu.example.com"].index.startsWith("A")
true  size(device.attributes["gpu.example.com"].model) == 4
true  device.attributes["gpu.example.com"].model.size() == 4
true  device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0
true  device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("39.9Gi"))
false device.capacity["gpu.example.com"].memory.isLessThan(quantity("40Gi"))
true  device.capacity["gpu.example.com"].memory == quantity("40960Mi")
true  device.capacity["gpu.example.com"].memory.isInteger()
true  device.capacity["gpu.example.com"].memory.asInteger() == 42949672960
true  "memory" in device.capacity["gpu.example.com"]
false quantity("1.5").isInteger()
false isQuantity("nonsense")
true  isQuantity("1Gi")
true  device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("535.1.0"))
true  device.attributes["gpu.example.com"].driverVersion.compareTo(semver("535.104.5")) == 0
false device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("535.104.5"))
true  device.attributes["gpu.example.com"].driverVersion.major() == 535
true  device.attributes["gpu.example.com"].driverVersion.minor() == 104
true  device.attributes["gpu.example.com"].driverVersion.patch() == 5
true  device.attributes["gpu.example.com"].driverVersion == semver("535.104.5")
true  semver("1.0.0-alpha").isLessThan(semver("1.0.0"))
true  semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-alpha.beta"))
true  semver("1.0.0-2").isLessThan(semver("1.0.0-11"))
true  semver("1.0.0+a") == semver("1.0.0+b")
true  semver("1.0.0-2.a").compareTo(semver("1.0.0-2")) == 1
error semver("v1").major() == 1
false isSemver("1.0")
true  isSemver("1.2.3")
true  cel.bind(d, device.attributes["gpu.example.com"], d.model == "A100" && d.index == 3)
true  cel.bind(d, device.attributes["gpu.example.com"].missing, true)
error cel.bind(d, device.attributes["gpu.example.com"].missing, d == 1)
true  ["A100", "H100"].exists(m, device.attributes["gpu.example.com"].model == m)
false ["A100", "H100"].all(m, device.attributes["gpu.example.com"].model == m)
true  ["A100", "H100"].exists_one(m, device.attributes["gpu.example.com"].model == m)
false ["A100", "A100"].exists_one(m, device.attributes["gpu.example.com"].model == m)
true  ["A", "B"].exists(x, ["A", "C"].exists(y, x == y))
error ["A"].exists(x, device.attributes["gpu.example.com"].missing == x)
true  ["A", "A100"].exists(x, x == "A100" || device.attributes["gpu.example.com"].missing == x)
true  [].all(x, x)
true  3 - 2 == 1
true  3 -2 == 1
true  1 + 2 * 3 == 7
true  (1 + 2) * 3 == 9
true  -7 / 2 == -3
true  -7 % 2 == -1
true  7 / -2 == -3
true  7 % -2 == 1
error 1 / 0 == 1
error 1 % 0 == 1
error 9223372036854775807 + 1 > 0
true  -9223372036854775808 < 0
error -(-9223372036854775808) > 0
true  "a" + "b" == "ab"
true  "\u00e9" == "é"
true  r"\d" == "\\d"
true  '''x''' == "x"
true  "é" > "z"
true  "\U0001F600" > "\uFFFF"
true  0x10 == 16
true  1 == 1 && 1 != 2 && 1 < 2 && 2 > 1 && 1 <= 1 && 1 >= 1
false true == false
true  false < true
true  [1, 2] == [1, 2]
false [1, 2] == [2, 1]
true  [1, 2][0] == 1
error [1, 2][2] == 1
true  device.attributes["x.example.com"].zone == "a"
error device.attributes["gpu.example.com"].zone == "a"
false device.allowMultipleAllocations
true  !device.allowMultipleAllocations
true  !!true
false !true
true  "ÄB".lowerAscii() == "Äb"
true  "äb".upperAscii() == "äB"
true  size("é") == 1
true  size([1,2]) == 2
true  device.attributes["gpu.example.com"].healthy == true
true  device.attributes["gpu.example.com"].healthy > false
""".strip().splitlines()


@pytest.mark.parametrize("line", KUBERNETES)
def test_has_the_value_that_kubernetes_gives_it(line: str) -> None:
    wanted, expression = line.split(maxsplit=1)

    assert _value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("device.attributes.x.split('.') == []", "function split"),
        ("device.driver.matches('a', 'b')", "function matches"),
        ("1.5 > 1.0", "floating point numbers"),
        ("1u == 1u", "unsigned integers"),
        ("b'a' == b'a'", "bytes"),
        ("null == null", "null"),
        ("{'a': 1}.a == 1", "maps in braces"),
        (".device.driver == 'x'", "names that begin with a dot"),
        ("request.x == 1", "name request"),
        ("device.attributes.?x == 1", "not in the grammar of cel-python"),
        ("device.driver.all(x, true)", "all of something else than a list in the expression"),
        ("[1].map(x, x) == [1]", "function map"),
        ("cel.bind(1, 2, true)", "a variable that is no name"),
        (r'"\ud800" < "a"', "halves of surrogate pairs"),
        (r'"\ud800".matches("a")', "halves of surrogate pairs"),
        ("'\udfff' in device.attributes", "halves of surrogate pairs"),
        (r'"\U00110000" == "a"', "characters that Unicode does not have"),
        ("has(1)", "has() of something else than a field"),
        ("int('1') == 1", "function int"),
        ("9223372036854775808 > 0", "integers of more than 64 bits"),
        ("(" * 17 + "true" + ")" * 17, "more than 16 parentheses in each other"),
        ("!" * 101 + "true", "more than 100 levels"),
        ("true || " * 200 + "true", f"more than {MAX_CHARACTERS} characters"),
        ("[1, 2] == [" + "1," * (MAX_STEPS + 1) + "1]", f"more than {MAX_STEPS} steps"),
        (
            "[1,2,3,4,5,6].all(a,[1,2,3,4,5,6].all(b,[1,2,3,4,5,6].all(c,a+b+c > 0)))",
            f"more than {MAX_STEPS} steps",
        ),
    ],
)
def test_names_what_is_not_supported(expression: str, named: str) -> None:
    with pytest.raises(UnsupportedExpression) as raised:
        compiled(expression)

    assert str(raised.value) == named


def test_long_texts_are_not_made() -> None:
    doubled = "cel.bind(a, 'xxxxxxxxxxxxxxxx', "
    for name, before in zip("bcdefghijk", "abcdefghij", strict=True):
        doubled += f"cel.bind({name}, {before} + {before}, "
    expression = f"{doubled}k == ''{')' * 11}"

    assert _value(expression) == "error"


def test_every_text_has_a_value_or_is_refused() -> None:
    for text in ("", " ", "device", "device.", "'", '"\\', "a.b.c()", "[", "1 +", "\0", "true//x"):
        try:
            value = _value(text)
        except UnsupportedExpression as error:
            value = str(error)

        assert value


def _value(expression: str) -> str:
    try:
        return str(compiled(expression).matches(D, DEVICE)).lower()
    except EvaluationError:
        return "error"


def _judged(pattern: str, text: str) -> Judgement:
    named = Device(name="d", attributes=(DeviceAttribute(D, "text", text=text),))
    expression = f'device.attributes["{D}"].text.matches("{pattern}")'
    return compiled(expression).judged(D, named)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a{0,999}" * 160, "a regular expression with more than 1000 repetitions"),
        ("a{999}|b{2,}", "a regular expression with more than 1000 repetitions"),
        (f"({'a' * 1300}){{0,999}}", "a regular expression of more than 4000 instructions"),
        ("(?i)k" + "k" * 1400, "a regular expression of more than 4000 instructions"),
        ("(?i)" + r"\\pL" * 17, "a regular expression with more than 16 classes of Unicode"),
        ("(", "a regular expression that RE2 does not understand"),
    ],
)
def test_a_regular_expression_is_bounded_before_it_is_made(pattern: str, why: str) -> None:
    assert _judged(pattern, "a").verdict == why


def test_a_match_is_bounded_and_paid_for_by_program_and_text() -> None:
    small, large = _judged("^GPU-[0-9a-f]{8}$", "GPU-0123abcd"), _judged("[^x]*a.{400}$", "a" * 60)

    assert small.verdict is True
    assert 0 < small.matching < 1000
    assert large.matching > 10 * small.matching
    told = str(_judged("[^x]*a.{400}$", "a" * 4000).verdict)
    assert "instructions for a text of 4000 bytes: more than 1000000 in all" in told
