"""Whether a device plugin lives, by what its Node shows. The times are Unix time in seconds."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.values import replace
from kubeshare_py.inventory.hami_plugins import ALIVE_S, Handshake, PluginSigns, requesting, time_in

NOW = 1_700_000_000.0
REGISTER = "GPU-a,10,7680,100,NVIDIA-Tesla P4,0,true:"
#: Go's time text, as the ancestor's plugin writes it.
REPORTED = "Reported 2023-11-14 22:13:20.434037031 +0000 UTC m=+1104711.777756895"
OFFERED = PluginSigns(register=REGISTER, handshake=requesting(NOW), offered=10)


def asked(age_s: float, offered: int = 0) -> Handshake:
    """A plugin that was asked so long ago, and has not answered."""
    signs = PluginSigns(register=REGISTER, handshake=requesting(NOW - age_s), offered=offered)
    return Handshake(signs, NOW)


def test_a_plugin_that_was_asked_less_than_a_minute_ago_lives() -> None:
    """The text of the handshake is younger than 60 s."""
    assert asked(59).is_alive(NOW)


def test_a_plugin_that_was_asked_a_minute_ago_lives_if_the_kubelet_offers_its_devices() -> None:
    """An old handshake is no sign of death while the node has devices to allocate."""
    assert asked(61, offered=80).is_alive(NOW)


def test_a_plugin_that_was_asked_a_minute_ago_is_dead_without_devices() -> None:
    """Neither a handshake of the last 60 s nor devices to allocate: its cards are removed."""
    assert not asked(61).is_alive(NOW)


def test_the_time_is_written_and_read_in_utc_whatever_the_timezone() -> None:
    """HAMi writes local time; what was written in one timezone is read in any."""
    assert requesting(NOW) == "Requesting_2023-11-14 22:13:20"
    assert time_in(requesting(NOW)) == NOW
    assert not asked(61).is_alive(NOW)
    assert asked(59).is_alive(NOW)


def test_the_ancestors_spellings_are_read() -> None:
    assert time_in("Requesting_2023.11.14 22:13:20") == NOW
    assert time_in("Deleted_2023.11.14 22:13:20") == NOW
    assert time_in(REPORTED) == NOW
    assert time_in(REPORTED.replace("22:13:20.434037031 +0000", "23:13:20 +0100")) == NOW


@pytest.mark.parametrize(
    "text", ["", "Requesting", "Requesting_", "Requesting_2023-13-45 99:99:99"]
)
def test_a_handshake_may_name_no_time(text: str) -> None:
    assert time_in(text) is None


@pytest.mark.parametrize("text", ["Requesting_soon", requesting(NOW + 8 * 3600)])
def test_a_time_that_is_odd_or_to_come_counts_from_when_it_is_seen(text: str) -> None:
    handshake = Handshake(PluginSigns(register=REGISTER, handshake=text), NOW)
    assert handshake.is_alive(NOW + 59)
    assert not handshake.is_alive(NOW + 60)


def test_a_plugin_whose_devices_are_gone_is_dead_at_once() -> None:
    handshake = Handshake(OFFERED, NOW)
    handshake.take(replace(OFFERED, offered=0), NOW + 1)
    assert not handshake.is_alive(NOW + 1)


def test_a_plugin_lives_again_with_its_devices() -> None:
    handshake = Handshake(OFFERED, NOW)
    handshake.take(replace(OFFERED, offered=0), NOW + 1)
    handshake.take(OFFERED, NOW + 2)
    assert handshake.is_alive(NOW + 500)


@pytest.mark.parametrize(
    "text",
    ["", requesting(NOW + 70), "Requesting_2030-01-01 00:00:00", "Deleted_2023.11.14 22:13:20"],
)
def test_that_it_is_asked_again_does_not_bring_a_dead_plugin_back(text: str) -> None:
    handshake = asked(61)
    handshake.take(PluginSigns(register=REGISTER, handshake=text), NOW + 71)
    assert not handshake.is_alive(NOW + 71)


def test_a_new_report_and_another_register_annotation_are_signs_of_life() -> None:
    for sign in (
        PluginSigns(register=REGISTER, handshake=REPORTED),
        PluginSigns(register=REGISTER.replace("true", "false"), handshake=requesting(NOW - 61)),
    ):
        handshake = asked(61)
        handshake.take(sign, NOW)
        assert handshake.is_alive(NOW + 59)
        handshake.take(sign, NOW + 59)  # the same text is none
        assert not handshake.is_alive(NOW + 60)


def test_what_the_ancestors_scheduler_found_dead_is_dead_until_it_reports() -> None:
    signs = PluginSigns(register=REGISTER, handshake="Deleted_2023.11.14 22:13:20")
    handshake = Handshake(signs, NOW)
    assert not handshake.is_alive(NOW)
    handshake.take(replace(signs, handshake=REPORTED), NOW + 5)
    assert handshake.is_alive(NOW + 5)


def test_a_plugin_without_a_handshake_is_asked_until_the_node_shows_it() -> None:
    signs = PluginSigns(register=REGISTER, offered=10)
    handshake = Handshake(signs, NOW)
    assert handshake.is_silent(NOW)
    handshake.take(replace(signs, handshake=requesting(NOW)), NOW)
    assert not handshake.is_silent(NOW + 1e6)


def test_a_plugin_that_reports_is_asked_only_when_it_has_stopped() -> None:
    handshake = Handshake(PluginSigns(register=REGISTER, handshake=REPORTED), NOW)
    assert not handshake.is_silent(NOW + 59)
    assert handshake.is_silent(NOW + 60)


def test_it_says_when_time_alone_changes_an_answer() -> None:
    handshake = asked(10)
    assert handshake.changes_at(NOW) == NOW + 50
    assert handshake.changes_at(NOW + 50) == math.inf


@dataclass(frozen=True, slots=True)
class Step:
    """So much later the node shows this."""

    after_s: int
    offered: int
    word: str
    register: str


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 90),
        st.sampled_from([0, 0, 10]),
        st.sampled_from(["same", "report", "request", "delete", "none"]),
        st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=12,
)


@given(STEPS)
def test_a_plugin_lives_by_its_devices_or_by_a_sign_of_its_own_within_a_minute(
    steps: list[Step],
) -> None:
    """Judged by books of the test: signs of the plugin, and when its devices vanished."""
    now, text = NOW, ""
    handshake: Handshake | None = None
    before = PluginSigns()
    own_sign = -math.inf
    for number, step in enumerate(steps):
        now += step.after_s
        text = {
            "same": text,
            "report": f"Reported {number}",
            "request": requesting(now),
            "delete": "Deleted_2023.11.14 22:13:20",
            "none": "",
        }[step.word]
        signs = PluginSigns(register=step.register, handshake=text, offered=step.offered)
        if handshake is None:
            handshake = Handshake(signs, now)
            own_sign = -math.inf if step.word == "delete" else math.floor(now)
        else:
            handshake.take(signs, now)
            if before.offered and not step.offered:
                own_sign = -math.inf
            if step.word == "report" or step.register != before.register:
                own_sign = now
        before = signs
        for later in (0, 30, 59, 60, 100):
            lives = step.offered > 0 or now + later < own_sign + ALIVE_S
            assert handshake.is_alive(now + later) == lives
        # Liveness: it is never asked for ever, and a report is enough for another minute.
        assert handshake.is_silent(now) == (not text) or text.startswith("Reported")
