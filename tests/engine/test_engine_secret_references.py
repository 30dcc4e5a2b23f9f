"""`secret://name`: the reference is stored, the value reaches the handler and nothing else."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import sqlalchemy as sa
from support.databases import SHARED
from support.definitions import bpmn, path
from support.samples import END, START

from bpm_engine import BpmnError, Config, Engine, InvalidInputError, Retry, Work
from bpm_engine.observability.logs import JsonFormatter, TextFormatter
from bpm_engine.observability.work_log import log_work
from bpm_engine.secrets import KEPT, SCHEME, Secrets
from bpm_engine.store.schema import metadata
from bpm_engine.testing import ManualClock, TestEngine

VALUE = "s3same-öpen'\\dich"
REFERENCE = "secret://stripe"
PROCESS = bpmn(
    START
    + '<serviceTask id="pay" bpm:topic="pay"><extensionElements><bpm:property name="key" value="secret://stripe"/>'
    "</extensionElements></serviceTask>" + END + path("start", "pay", "end")
)


def resolver(name: str, tenant: str) -> str:
    return {("stripe", "default"): VALUE, ("stripe", "acme"): "acme's own"}[name, tenant]


@pytest.fixture
def lines() -> Iterator[list[io.StringIO]]:
    """Everything that is logged, by both of our formatters."""
    root, written = logging.getLogger(), []
    handlers = []
    for formatter in (JsonFormatter(), TextFormatter()):
        written.append(io.StringIO())
        handlers.append(logging.StreamHandler(written[-1]))
        handlers[-1].setFormatter(formatter)
        root.addHandler(handlers[-1])
    before = root.level
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(before)
    for handler in handlers:
        root.removeHandler(handler)


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    return url_of(request.param)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    config = Config(auto_migrate=True)
    with Engine(url, config=config, clock=ManualClock(), secrets=resolver) as engine:
        log_work(engine)
        engine.deploy(PROCESS)
        yield engine


@pytest.fixture
def is_nowhere(engine: Engine, url: str, lines: list[io.StringIO]) -> Callable[[], None]:
    """Looks through every value of every row, the bytes of the file where there is one, and the log."""

    def look() -> None:
        tables = metadata.sorted_tables
        with engine.begin() as connection:
            seen = [str(row) for table in tables for row in connection.execute(sa.select(table))]
        if url.startswith("sqlite"):
            file = sa.make_url(url).database or ""
            seen += [Path(file + end).read_bytes().decode("utf-8", "replace") for end in ("", "-wal")]
        everything = "\n".join([*seen, *(each.getvalue() for each in lines)])
        assert "pay" in everything
        for part in ("s3same", "dich"):  # whatever stands between them, in whatever notation
            assert part not in everything

    return look


def fails_plainly(work: Work) -> None:
    raise RuntimeError(f"refused the key {work.secret(work.properties['key'])}")


def fails_in_quotes(work: Work) -> None:
    raise KeyError(work.secret(REFERENCE))


def fails_far_out(work: Work) -> None:
    """Where the text is cut, no half of it is left."""
    raise RuntimeError(
        "x" * 1_990 + work.secret(REFERENCE) + "x" * 8_000 + work.secret(REFERENCE) + "x" * 7_990
    )


def fails_because_of_another(work: Work) -> None:
    try:
        raise ConnectionError(f"https://api.example/?key={work.secret(REFERENCE)}")
    except ConnectionError as error:
        raise RuntimeError("no answer") from error


def throws(work: Work) -> None:
    raise BpmnError("DECLINED", f"with {work.secret(REFERENCE)}")


def throws_it(work: Work) -> None:
    raise BpmnError("DECLINED", variables={"key": work.secret(REFERENCE)})


def throws_by_it(work: Work) -> None:
    raise BpmnError(f"DECLINED {work.secret(REFERENCE)}")


def returns_it(work: Work) -> dict[str, object]:
    return {"sent": [{"headers": {"Authorization": f"Bearer {work.secret(REFERENCE)}"}}]}


def names_by_it(work: Work) -> dict[str, object]:
    return {"sent": {work.secret(REFERENCE): 1}}


def logs_it(work: Work) -> None:
    logging.getLogger("shop").warning("paying with %s", work.secret(REFERENCE))
    try:
        fails_plainly(work)
    except RuntimeError:
        logging.getLogger("shop").exception("again")


async def fails_later(work: Work) -> None:
    raise RuntimeError(work.secret(REFERENCE))


@pytest.mark.parametrize(
    "handler",
    [
        fails_plainly,
        fails_in_quotes,
        fails_far_out,
        fails_because_of_another,
        throws,
        throws_it,
        throws_by_it,
        returns_it,
        names_by_it,
        fails_later,
    ],
)
def test_the_value_is_in_no_row_and_no_line_after_a_failure(
    engine: Engine, is_nowhere: Callable[[], None], handler: Callable[[Work], object]
) -> None:
    engine.handler("pay", retry=Retry(attempts=2, base="0s"))(handler)
    instance = engine.start("p", {"key": REFERENCE})
    engine.run_until_idle()
    (incident,) = engine.incidents.find().items
    assert VALUE not in incident.message
    assert engine.instances.get(instance.id).variables == {"key": REFERENCE}
    is_nowhere()


def test_the_value_is_in_no_row_and_no_line_after_success(
    engine: Engine, lines: list[io.StringIO], is_nowhere: Callable[[], None]
) -> None:
    seen = []

    @engine.handler("pay")
    def pay(work: Work) -> dict[str, object]:
        seen.append(work.secret(work.properties["key"]))
        seen.append(work.secret(work["key"]))
        logs_it(work)
        return {"paid_with": work["key"]}

    instance = engine.start("p", {"key": REFERENCE})
    engine.run_until_idle()
    assert seen == [VALUE, VALUE]
    assert engine.instances.get(instance.id).variables == {"key": REFERENCE, "paid_with": REFERENCE}
    assert "paying with ***" in lines[0].getvalue()
    is_nowhere()


def test_the_value_is_in_no_row_and_no_line_after_a_transactional_handler_failed(
    engine: Engine, is_nowhere: Callable[[], None]
) -> None:
    @engine.handler("pay", transactional=True, retry=Retry(attempts=1))
    def pay(work: Work, connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT * FROM nowhere WHERE key = :key"), {"key": work.secret(REFERENCE)})

    engine.start("p")
    engine.run_until_idle()
    assert len(engine.incidents.find().items) == 1
    is_nowhere()


def test_a_result_that_holds_the_value_is_refused_in_words() -> None:
    with TestEngine(PROCESS, handlers={"pay": returns_it}, secrets=resolver) as engine:
        engine.start("p")
        engine.run_until_idle()
        (incident,) = engine.incidents.find().items
    assert incident.code == "bad_result"
    assert incident.message == "what the handler returned holds the value of a secret; return its reference"


def test_a_value_that_another_run_resolved_is_struck_out_as_well() -> None:
    """A client that was made once, with a secret, fails later: in a run that did not ask for it."""
    with TestEngine(PROCESS, secrets=resolver) as engine:
        known: list[str] = []

        @engine.handler("pay", retry=Retry(attempts=1))
        def pay(work: Work) -> None:
            if known:
                raise RuntimeError(f"the session of {known[0]} is over")
            known.append(work.secret(REFERENCE))

        for _ in range(2):
            engine.start("p")
            engine.run_until_idle()
        assert [each.message for each in engine.incidents.find().items] == ["the session of *** is over"]


def test_each_tenant_has_secrets_of_its_own() -> None:
    with TestEngine(secrets=resolver) as engine:
        seen = []
        engine.handler("pay")(lambda work: seen.append(work.secret(REFERENCE)))
        for tenant in ("default", "acme"):
            engine.tenant(tenant).deploy(PROCESS)
            engine.tenant(tenant).start("p")
        engine.run_until_idle()
        assert sorted(seen) == sorted([VALUE, "acme's own"])


@pytest.mark.parametrize(
    ("secrets", "reference", "words"),
    [
        (Secrets(), REFERENCE, "'secret://stripe' cannot be resolved: the engine was made without secrets="),
        (Secrets(resolver), "stripe", "a reference to a secret is a text such as secret://name"),
        (Secrets(resolver), SCHEME, "a reference to a secret is a text"),
        (Secrets(resolver), None, "a reference to a secret is a text"),
        (Secrets(lambda name, tenant: "abc"), REFERENCE, "must be a text of at least 4 characters"),
        (Secrets(lambda name, tenant: b"abcdef"), REFERENCE, "must be a text"),  # type: ignore[arg-type, return-value]
    ],
)
def test_what_cannot_be_resolved_is_said_without_the_value(
    secrets: Secrets, reference: object, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as refused:
        secrets.resolve(reference, "default")
    assert "abc" not in "".join(traceback.format_exception(refused.value)).replace("abcdef", "")


@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        json.dumps,
        lambda value: repr(value.encode()),
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: f"https://bank.example/{quote(value)}",
        lambda value: f"https://user:{quote(value, safe='')}@bank.example/",
        lambda value: f"https://bank.example/?{urlencode({'key': value})}",
    ],
)
def test_the_value_is_struck_out_in_every_usual_notation(write: Callable[[str], str]) -> None:
    secrets = Secrets(lambda name, tenant: "start ö\t'\\\"/+ end")
    secrets.resolve(REFERENCE, "default")
    masked = secrets.mask(write("start ö\t'\\\"/+ end"))
    assert "***" in masked
    assert "start" not in masked


def test_the_lines_of_a_long_secret_are_struck_out_wherever_they_stand() -> None:
    secrets = Secrets(
        lambda name, tenant: "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----"
    )
    secrets.resolve("secret://pem", "default")
    assert secrets.mask("  | MIIEvQIBADAN\n  | BgkqhkiG9w0B") == "  | ***\n  | ***"


def test_values_that_change_with_time_do_not_fill_the_memory() -> None:
    numbers = iter(range(10 * KEPT))
    secrets = Secrets(lambda name, tenant: f"token-{next(numbers):06}")
    for _ in range(KEPT + 5):
        secrets.resolve("secret://token", "default")
    assert len(secrets._told) == KEPT
    assert secrets.mask(f"token-{4:06} token-{KEPT:06}") == f"token-{4:06} ***"
