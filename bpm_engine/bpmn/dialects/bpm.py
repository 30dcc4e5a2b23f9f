"""Our own namespace, `urn:bpm-engine:1`: every setting the engine knows, in its own words.

The XSD and the moddle descriptor in `bpmn/extension/` list the same names; a test compares them.
"""

from __future__ import annotations

import re
from typing import Literal

from lxml import etree

from bpm_engine.bpmn.dialects import rows
from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.readers import (
    choice,
    duration,
    flag,
    integer,
    is_duration,
    parse_flag,
    parse_integer,
    string,
    template,
    text,
    topic,
)
from bpm_engine.bpmn.dialects.rows import Dialect, attribute, element, part
from bpm_engine.bpmn.dialects.structures import children, value_of
from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.settings import FormField, Guard, RetrySettings, VariableMapping

NAMESPACE = "urn:bpm-engine:1"
FIELD_TYPES = ("string", "number", "integer", "boolean", "date", "enum")
RETRY_KINDS: tuple[Literal["fixed"], Literal["linear"], Literal["exponential"]] = (
    "fixed",
    "linear",
    "exponential",
)
_JITTER = re.compile(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?|\.[0-9]{1,9}")


def _retry(draft: Draft, node: etree._Element) -> None:
    attempts = parse_integer(node.get("attempts") or "1", minimum=1)
    kind, jitter = node.get("kind"), node.get("jitter")
    if attempts is None:
        draft.bad(node.get("attempts") or "", "a number of attempts from 1")
    if kind is not None and kind not in RETRY_KINDS:
        draft.bad(kind, f"one of {', '.join(RETRY_KINDS)}")
    for name in ("base", "max"):
        if node.get(name) is not None and not is_duration(node.get(name) or ""):
            draft.bad(node.get(name) or "", "an ISO 8601 duration such as PT2S")
    if jitter is not None and not _JITTER.fullmatch(jitter):
        draft.bad(jitter, "a number from 0 to 1")
        jitter = None
    draft.put(
        "retry",
        RetrySettings(
            attempts=attempts if node.get("attempts") is not None else None,
            kind=next((known for known in RETRY_KINDS if known == kind), None),
            base=node.get("base"),
            max=node.get("max"),
            jitter=None if jitter is None else float(jitter),
        ),
    )


def _property(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "name"):
        draft.add_property(value_of(node, "name"), node.get("value") or "")


def _mapping(setting: str, name: str = "name") -> rows.ElementReader:
    def read(draft: Draft, node: etree._Element) -> None:
        if value_of(node, name) and value_of(node, "value"):
            value = draft.text(node.get("value") or "")
            draft.add(setting, VariableMapping(value_of(node, name), value))

    return read


def _field(draft: Draft, node: etree._Element) -> None:
    name, kind = value_of(node, "name"), node.get("type", "string")
    values = tuple(text_of(value).strip() for value in children(node, "value"))
    required = parse_flag(node.get("required", "false"))
    if kind not in FIELD_TYPES:
        draft.bad(kind, f"one of {', '.join(FIELD_TYPES)}")
        return
    if required is None:
        draft.bad(node.get("required", ""), "true or false")
    if kind == "enum" and not values:
        draft.bad(name, "a complete enum field: it has no <bpm:value>")
    if kind != "enum" and values:
        draft.bad(kind, "a type with <bpm:value>; only enum has values")
    if name:
        label = node.get("label", "")
        draft.add("fields", FormField(name, kind, required or False, label, values, node.get("default")))


def _guard(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "condition"):
        draft.add("guards", Guard(draft.text(node.get("condition") or ""), node.get("message", "")))


def _called_version(draft: Draft, value: str) -> None:
    value = value.strip()
    if value in ("latest", "deployment") or parse_integer(value, minimum=1) is not None:
        draft.put("called_version", value)
    elif value:
        draft.bad(value, "latest, deployment or a version number")


_CALLED = rows.CALL_ACTIVITY
_FLAG = "true | false"
_DURATION = "ISO 8601 duration"
_EXPRESSION = "expression"
_TEMPLATE = "text with expressions"

DIALECT = Dialect(
    "bpm",
    (NAMESPACE,),
    (
        attribute(
            "topic",
            rows.WORK | rows.THROW,
            "topic",
            topic(TopicRank.TOPIC),
            "name of the handler; without one the dialects' names count, then the element's id",
        ),
        element(
            "retry",
            rows.ACTIVITY | rows.THROW,
            "retry",
            _retry,
            part("attempts", values="number from 1"),
            part("kind", values=" | ".join(RETRY_KINDS)),
            part("base", values=_DURATION),
            part("max", values=_DURATION),
            part("jitter", values="number from 0 to 1"),
            note="what happens when the handler fails",
        ),
        attribute(
            "lease",
            rows.WORK | rows.THROW,
            "lease",
            duration("lease"),
            values=_DURATION,
            note="how long the lock of external work is good; that of a handler is extended while it runs",
        ),
        attribute(
            "priority",
            rows.NODE | rows.PROCESS,
            "priority",
            text("priority"),
            "higher runs first; for a user task, what its list shows",
            values="number or expression",
        ),
        attribute(
            "onFailure",
            rows.ACTIVITY | rows.THROW,
            "on_failure",
            choice("on_failure", "fail", "suspend"),
            "when the last attempt failed",
            values="fail | suspend",
        ),
        attribute(
            "external",
            rows.WORK | rows.THROW,
            "external",
            flag("external"),
            "only external workers take it",
            values=_FLAG,
        ),
        attribute(
            "asyncBefore", rows.NODE, "async_before", flag("async_before"), "rest before it", values=_FLAG
        ),
        attribute("asyncAfter", rows.NODE, "async_after", flag("async_after"), "rest after it", values=_FLAG),
        element(
            "property",
            rows.NODE,
            "properties",
            _property,
            part("name", required=True),
            part("value"),
            note="static configuration for the handler",
        ),
        element(
            "input",
            rows.ACTIVITY | rows.EVENT,
            "inputs",
            _mapping("inputs"),
            part("name", required=True),
            part("value", values=_EXPRESSION, required=True),
            note="a local variable, computed on entering",
        ),
        element(
            "output",
            rows.ACTIVITY | rows.EVENT,
            "outputs",
            _mapping("outputs"),
            part("name", required=True),
            part("value", values=_EXPRESSION, required=True),
            note="a variable of the surrounding scope, computed on completion",
        ),
        attribute(
            "emit", rows.NODE, "emit", string("emit"), "event written to the outbox when the node completes"
        ),
        attribute(
            "compensate",
            rows.ACTIVITY,
            "compensate_topic",
            string("compensate_topic"),
            "topic of the handler that undoes the activity",
        ),
        attribute(
            "saga",
            rows.ACTIVITY | rows.PROCESS,
            "saga",
            flag("saga"),
            "compensate completed steps when one fails for good",
            values=_FLAG,
        ),
        attribute(
            "resultVariable",
            rows.WORK,
            "result_variable",
            string("result_variable"),
            "where the result of the script's one expression, or of the handler, goes",
        ),
        attribute("assignee", rows.USER_TASK, "assignee", template("assignee"), values=_TEMPLATE),
        attribute(
            "candidateUsers",
            rows.USER_TASK,
            "candidate_users",
            template("candidate_users"),
            "separated by commas",
            values=_TEMPLATE,
        ),
        attribute(
            "candidateGroups",
            rows.USER_TASK,
            "candidate_groups",
            template("candidate_groups"),
            "separated by commas; without one, the lane's name",
            values=_TEMPLATE,
        ),
        attribute("dueDate", rows.USER_TASK, "due_date", template("due_date"), values=_TEMPLATE),
        attribute(
            "followUpDate", rows.USER_TASK, "follow_up_date", template("follow_up_date"), values=_TEMPLATE
        ),
        attribute("formKey", rows.USER_TASK, "form_key", string("form_key")),
        element(
            "field",
            rows.USER_TASK,
            "fields",
            _field,
            part("name", required=True),
            part("type", values=" | ".join(FIELD_TYPES)),
            part("required", values=_FLAG),
            part("label"),
            part("default"),
            element("value", rows.ANYWHERE, "", None, values="one value of an enum"),
            note="one field of the form",
        ),
        element(
            "guard",
            rows.USER_TASK,
            "guards",
            _guard,
            part("condition", values=_EXPRESSION, required=True),
            part("message"),
            note="checked again when the task is completed",
        ),
        attribute(
            "correlationKey",
            rows.MESSAGE_POSITION | rows.MESSAGE,
            "correlation_key",
            text("correlation_key"),
            values=_EXPRESSION,
        ),
        element(
            "match",
            rows.MESSAGE_POSITION,
            "match",
            _mapping("match", "path"),
            part("path", required=True),
            part("value", values=_EXPRESSION, required=True),
            note="the message must contain this value at this path",
        ),
        attribute(
            "payloadVariable",
            rows.MESSAGE_POSITION,
            "payload_variable",
            string("payload_variable"),
            "receives the whole payload; without it, the payload's entries become variables",
        ),
        attribute("collection", rows.MULTI_INSTANCE, "collection", text("collection"), values=_EXPRESSION),
        attribute("elementVariable", rows.MULTI_INSTANCE, "element_variable", string("element_variable")),
        attribute("outputCollection", rows.MULTI_INSTANCE, "output_collection", string("output_collection")),
        attribute(
            "outputElement",
            rows.MULTI_INSTANCE,
            "output_element",
            text("output_element"),
            values=_EXPRESSION,
        ),
        attribute(
            "version", _CALLED, "called_version", _called_version, values="latest | deployment | number"
        ),
        attribute("versionTag", _CALLED, "called_version_tag", string("called_version_tag")),
        attribute("versionTag", rows.PROCESS, "version_tag", string("version_tag")),
        attribute(
            "inheritBusinessKey",
            _CALLED,
            "inherit_business_key",
            flag("inherit_business_key"),
            values=_FLAG,
        ),
        attribute("businessKey", _CALLED, "business_key", template("business_key"), values=_TEMPLATE),
        attribute(
            "activate",
            rows.AD_HOC,
            "activate",
            text("activate"),
            "the activities that begin by themselves; without it, all if there is no completion condition, "
            "else none",
            values="all | none | expression that gives ids",
        ),
        attribute(
            "deadline",
            rows.ACTIVITY | rows.PROCESS,
            "deadline",
            duration("deadline", or_expression=True),
            values="ISO 8601 duration or expression",
        ),
        attribute("retention", rows.PROCESS, "retention", duration("retention"), values=_DURATION),
        attribute(
            "catchUp",
            rows.PROCESS,
            "catch_up",
            choice("catch_up", "once", "all", "skip"),
            "timer cycles missed during downtime",
            values="once | all | skip",
        ),
        attribute(
            "maxTokens", rows.PROCESS, "max_tokens", integer("max_tokens", minimum=1), values="number from 1"
        ),
        attribute(
            "errorCodeVariable",
            rows.EVENT | rows.ERROR_EVENT | rows.ESCALATION_EVENT,
            "error_code_variable",
            string("error_code_variable"),
            "receives the code that was caught",
        ),
        attribute(
            "errorMessageVariable",
            rows.EVENT | rows.ERROR_EVENT,
            "error_message_variable",
            string("error_message_variable"),
            "receives the message that was caught",
        ),
    ),
    prefix="bpm",
    own=True,
)
