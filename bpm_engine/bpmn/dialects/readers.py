"""Readers of single attributes: each turns a text into one setting, or reports why it cannot.

An empty value means "not set", as modellers write it.
"""

from __future__ import annotations

import re

from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.rows import AttributeReader
from bpm_engine.bpmn.settings import RetrySettings
from bpm_engine.bpmn.text import TEMPLATE

DURATION = re.compile(
    r"P(?=[\dT])(\d+Y)?(\d+M)?(\d+W)?(\d+(\.\d+)?D)?"
    r"(T(?=\d)(\d+(\.\d+)?H)?(\d+(\.\d+)?M)?(\d+(\.\d+)?S)?)?"
)
_WHOLE_EXPRESSION = re.compile(r"[$#]\{(.*)\}", re.DOTALL)
_METHOD_CALL = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\s*\((.*)\)", re.DOTALL)
_SET_VARIABLE = re.compile(
    r"""execution\s*\.\s*setVariable\s*\(\s*(["'])([^\W\d]\w*)\1\s*,(.*)\)""", re.DOTALL
)
_PATH = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)*")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")

SERVICE_EXPRESSION_NOTE = (
    "`execution.setVariable('x', …)` writes `x`; another method call becomes the topic `bean.method` "
    "(with a warning); anything else is computed"
)


def parse_flag(value: str) -> bool | None:
    """xsd:boolean: true, false, 1, 0. Some tools write TRUE."""
    return {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())


def is_duration(value: str) -> bool:
    return DURATION.fullmatch(value) is not None


def is_expression(value: str) -> bool:
    return "${" in value or "#{" in value or value.startswith("=")


def expression_body(value: str) -> str | None:
    """The inside of a text that is one `${…}` as a whole; None for anything else."""
    match = _WHOLE_EXPRESSION.fullmatch(value.strip())
    body = match.group(1).strip() if match else ""
    return body if body and "${" not in body and "#{" not in body else None


def is_variable_name(value: str) -> bool:
    return _IDENTIFIER.fullmatch(value) is not None


# ------------------------------------------------------------------ factories


def string(name: str) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        if value.strip():
            draft.put(name, value.strip())

    return read


def text(name: str, language: str = "") -> AttributeReader:
    """An expression, by its look: `${…}`, `= …`, or plain."""

    def read(draft: Draft, value: str) -> None:
        if value.strip():
            draft.put(name, draft.text(value, language))

    return read


def template(name: str) -> AttributeReader:
    """Literal text that may hold expressions."""
    return text(name, TEMPLATE)


def flag(name: str) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        if not value.strip():
            return
        parsed = parse_flag(value)
        if parsed is None:
            draft.bad(value, "true or false")
        else:
            draft.put(name, parsed)

    return read


def integer(name: str, minimum: int = 0) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        if not value.strip():
            return
        number = parse_integer(value, minimum)
        if number is None:
            draft.bad(value, f"a whole number from {minimum}")
        else:
            draft.put(name, number)

    return read


def parse_integer(value: str, minimum: int = 0) -> int | None:
    # int() also takes "1_0" and non-ASCII digits, which no other reader of the file understands.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        return None
    number = int(value)
    return number if number >= minimum else None


def duration(name: str, *, or_expression: bool = False) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        value = value.strip()
        if is_duration(value) or (or_expression and is_expression(value)):
            draft.put(name, value)
        elif value:
            draft.bad(value, "an ISO 8601 duration such as PT2M or P30D")

    return read


def choice(name: str, *options: str) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        value = value.strip()
        if value in options:
            draft.put(name, value)
        elif value:
            draft.bad(value, f"one of {', '.join(options)}")

    return read


def topic(rank: TopicRank) -> AttributeReader:
    def read(draft: Draft, value: str) -> None:
        if value.strip():
            draft.offer_topic(rank, value.strip())

    return read


def delegate_name(draft: Draft, value: str) -> None:
    """`${shipDelegate}`: the bean's name is the handler's."""
    name = expression_body(value) or value.strip()
    if not name:
        return
    if _PATH.fullmatch(name):
        draft.offer_topic(TopicRank.DELEGATE_EXPRESSION, name)
    else:
        draft.differs("a handler has a fixed name: that of the element's id, not what the expression gives")


def service_expression(draft: Draft, value: str) -> None:
    """`${bean.method(a)}` calls code that is not here: its name is the topic. Anything else is computed,
    and so is what `${execution.setVariable('total', a + b)}` writes."""
    value = value.strip()
    body = expression_body(value)
    if body is None:
        if value:
            draft.offer_topic(TopicRank.EXPRESSION, value)
        return
    written = _SET_VARIABLE.fullmatch(body)
    if written is not None and _closes_at_end(written.group(3)):
        draft.put("expression", draft.text(f"{written.group(2)} = {written.group(3).strip()}", "juel"))
        return
    call = _METHOD_CALL.fullmatch(body)
    if call is None or not _closes_at_end(call.group(2)):
        draft.put("expression", draft.text(value, "juel"))
        return
    draft.offer_topic(TopicRank.EXPRESSION, call.group(1))
    draft.differs(f"the handler of topic {call.group(1)!r} is called; it reads variables, not arguments")


def _closes_at_end(arguments: str) -> bool:
    """Whether a call's closing bracket is the last one: true for `f(a)`, not for `f(a) + g(b)`."""
    depth = 0
    for character in arguments:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def built_in_type(draft: Draft, value: str) -> None:
    """Tasks for external workers are such here, too; mail, http, shell … are built into those engines."""
    value = value.strip()
    if value in ("external", "external-worker"):
        draft.put("external", True)
    if value in ("", "external", "external-worker"):
        return
    draft.offer_topic(TopicRank.BUILT_IN, value)
    draft.differs(f"there is no built-in {value!r} task; the handler of topic {value!r} is called")


def retry_cycle(draft: Draft, value: str) -> None:
    """`R3/PT10S`: three attempts, ten seconds apart; `PT1M,PT5M`: one attempt more than intervals."""
    value = value.strip()
    if not value:
        return
    repeated = re.fullmatch(r"R([0-9]{1,9})/(P\S+)", value)
    if repeated and is_duration(repeated.group(2)):
        attempts = max(1, int(repeated.group(1)))
        draft.put("retry", RetrySettings(attempts, "fixed", repeated.group(2)))
        return
    intervals = [interval.strip() for interval in value.split(",")]
    if all(is_duration(interval) for interval in intervals):
        draft.put("retry", RetrySettings(len(intervals) + 1, "fixed", intervals[0]))
        if len(set(intervals)) > 1:
            draft.differs(f"every attempt waits {intervals[0]}, the first interval")
        return
    draft.bad(value, "a cycle such as R3/PT10S")


def days_or_duration(name: str) -> AttributeReader:
    """Camunda's time to live: a number of days or an ISO 8601 duration."""

    def read(draft: Draft, value: str) -> None:
        value = value.strip()
        if re.fullmatch(r"[0-9]{1,6}", value):
            draft.put(name, f"P{int(value)}D")
        elif is_duration(value):
            draft.put(name, value)
        elif value:
            draft.bad(value, "a number of days or an ISO 8601 duration")

    return read
