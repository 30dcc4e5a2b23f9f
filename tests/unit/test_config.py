"""Settings: one that cannot work is refused where it is set, by name; so is one of the environment."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bpm_engine import Config, InvalidInputError
from bpm_engine.config import MAY_BE_ZERO, OF_TESTS, OTHERS


def test_what_is_refused_names_the_setting() -> None:
    for setting in fields(Config):
        if isinstance(setting.default, bool):
            wrong: list[Any] = ["yes", 1]
        elif isinstance(setting.default, int | float):
            wrong = [-1, "5", True, None]
        elif isinstance(setting.default, tuple):
            wrong = ["billing.", (1,), 17]
        else:
            wrong = [17]
        for value in wrong:
            with pytest.raises(InvalidInputError, match=rf"^{setting.name}:? "):
                Config(**{setting.name: value})


@pytest.mark.parametrize("name", sorted(MAY_BE_ZERO))
def test_some_numbers_may_be_zero(name: str) -> None:
    assert getattr(Config(**{name: 0}), name) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"worker_threads": 0}, "worker_threads must be a whole number from 1 on, not 0"),
        ({"tokens": 1.5}, "tokens must be a whole number from 1 on, not 1.5"),
        ({"lease": float("nan")},
         "lease must be a duration such as '30s', 'PT5M' or timedelta(seconds=30), or a number of seconds "
         "from 0 on, not nan"),
        ({"lease": timedelta(seconds=-1)}, "lease must not be negative"),
        ({"lease": "soon"},
         "lease: 'soon' is not a duration; write it like PT10S, P1D, P1M or 30s [TIME_FORMAT]"),
        ({"retention": "P1M"}, "retention: 'P1M' has months or years, whose length is not fixed"),
        ({"tenant_limits": {"acme": {"backlog": "soon"}}},
         "tenant_limits of 'acme': backlog: 'soon' is not a duration; "
         "write it like PT10S, P1D, P1M or 30s [TIME_FORMAT]"),
        ({"on_failure": "explode"}, "on_failure is one of fail, suspend, not 'explode'"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_work_is_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Config(**values)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("BPM_WORKER_THREADS", "many", "BPM_WORKER_THREADS='many': expected a whole number"),
        ("BPM_TOKENS", "-3", "BPM_TOKENS: tokens must be a whole number from 1 on, not -3"),
        ("BPM_POLL", "x",
         "BPM_POLL='x': expected seconds, or a duration such as 500ms, 30s, 5m, 2h, 7d or PT90S"),
        ("BPM_RETENTION", "P1M",
         "BPM_RETENTION='P1M': expected seconds, or a duration such as 500ms, 30s, 5m, 2h, 7d or PT90S"),
        ("BPM_LEASE", "inf", "BPM_LEASE: lease must be a duration such as '30s', 'PT5M' or "
         "timedelta(seconds=30), or a number of seconds from 0 on, not inf"),
        ("BPM_WAKEUPS", "perhaps", "BPM_WAKEUPS='perhaps': expected true or false"),
        ("BPM_SOUNDNESS", "maybe", "BPM_SOUNDNESS='maybe': expected one of warn, refuse, off"),
    ],
)  # fmt: skip
def test_the_environment_is_named_where_it_is_wrong(name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Config.from_environment({name: text})
    assert str(refused.value) == words


@pytest.mark.parametrize("name", [each.name for each in fields(Config) if each.type == "Seconds"])
@pytest.mark.parametrize("duration", ["1h", "PT1H", timedelta(hours=1), 3600, 3600.0])
def test_a_duration_is_text_a_timedelta_or_seconds_and_is_read_as_seconds(name: str, duration: Any) -> None:
    assert getattr(Config(**{name: duration}), name) == 3600.0


@pytest.mark.parametrize("text", ["1h", "PT1H", "3600", "1.0h"])
def test_a_duration_of_the_environment_is_text_or_seconds(text: str) -> None:
    assert Config.from_environment({"BPM_CONNECT_TIMEOUT": text}).connect_timeout == 3600.0


def test_what_code_says_beside_the_environment_is_named_as_it_was_written() -> None:
    with pytest.raises(InvalidInputError, match=r"^lease: 'soon' is not a duration"):
        Config.from_environment({}, lease="soon")


def test_the_limit_of_a_tenant_that_is_a_duration_is_read_as_one() -> None:
    config = Config(backlog=timedelta(minutes=1), tenant_limits={"trial": {"backlog": "5s", "tokens": 10}})
    assert (config.backlog, config.of("trial").backlog, config.of("trial").tokens) == (60.0, 5.0, 10)


def test_defaults_and_the_environment_are_fine() -> None:
    read = Config.from_environment(
        {"BPM_LEASE": "1m", "BPM_WORKER_TYPES": "a., b.", "BPM_TOKENS": "5"}, poll=0.0
    )
    assert (read.lease, read.worker_types, read.tokens, read.poll) == (60.0, ("a.", "b."), 5, 0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("BPM_LEESE", "BPM_LEESE in the environment is no setting and has no effect; is BPM_LEASE meant?"),
        ("BPM_DATABSE_URL", "BPM_DATABSE_URL in the environment is no setting and has no effect; "
         "is BPM_DATABASE_URL meant?"),
        ("BPM_XYLOPHONE", "BPM_XYLOPHONE in the environment is no setting and has no effect"),
    ],
)  # fmt: skip
def test_a_name_that_no_setting_has_is_told_with_the_nearest_one(
    name: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert Config.from_environment({name: "secret value", "BPM_LEASE": "1m"}).lease == 60.0
    assert caplog.messages == [words]


def test_names_of_the_command_line_of_tests_and_of_others_are_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [
        "BPM_APP",
        "BPM_CRASH",
        "BPM_TEST_DATABASE_URL",
        "BPM_TEST_NEW",
        "HOME",
        "BPMN_HOME",
        "bpm_lease",
    ]
    numbers = [f"BPM_{each.name.upper()}" for each in fields(Config) if each.type == "int"]
    Config.from_environment(dict.fromkeys([*names, *numbers], "1"))
    assert caplog.messages == []


def test_every_name_that_is_read_from_the_environment_is_known() -> None:
    """Of the package and of its tests: whoever reads a new one adds it, or everybody is warned."""
    root = Path(__file__).parents[2]
    files = [*root.glob("bpm_engine/**/*.py"), *root.glob("tests/**/*.py"), *root.glob("bench/**/*.py")]
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\(|envvar=)["'](BPM_\w+)""")
    found = {name for file in files for name in read.findall(file.read_text(encoding="utf-8"))}
    assert {"BPM_APP", "BPM_CRASH"} <= found
    assert {name for name in found if not name.startswith(OF_TESTS)} <= OTHERS
