"""Camunda 8 (Zeebe): `http://camunda.org/schema/zeebe/1.0`. Texts that begin with `=` are FEEL."""

from __future__ import annotations

import re

from lxml import etree

from bpm_engine.bpmn.dialects import rows
from bpm_engine.bpmn.dialects.camunda import DECISION_NOTE, PROPERTIES_NOTE, START_FORM_NOTE
from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.readers import parse_flag, parse_integer
from bpm_engine.bpmn.dialects.rows import (
    Dialect,
    Treatment,
    element,
    elements_not_run,
    harmless_attributes,
    ignored_elements,
    part,
)
from bpm_engine.bpmn.dialects.structures import local, properties, value_of
from bpm_engine.bpmn.settings import RetrySettings, VariableMapping
from bpm_engine.bpmn.text import TEMPLATE

_CONSTANT = re.compile(r"^\s*=\s*(?=\d+\s*$)")  # a number, written as an expression
_JOB = rows.WORK | rows.THROW | rows.SUB_PROCESS


def _task_definition(draft: Draft, node: etree._Element) -> None:
    name, retries = value_of(node, "type"), value_of(node, "retries")
    if name.startswith("="):
        draft.differs("a handler has a fixed name: that of the element's id, not what the expression gives")
    elif name:
        draft.offer_topic(TopicRank.ZEEBE_TYPE, name)
    if not retries:
        return
    attempts = parse_integer(_CONSTANT.sub("", retries), minimum=0)
    if attempts is None:
        draft.bad(retries, "a number of attempts")
    else:
        draft.put("retry", RetrySettings(attempts=max(1, attempts)))


def _io_mapping(draft: Draft, node: etree._Element) -> None:
    for mapping in node.iterchildren("*"):
        setting = {"input": "inputs", "output": "outputs"}.get(local(mapping))
        source, target = value_of(mapping, "source"), value_of(mapping, "target")
        if setting is None or not target:
            continue
        draft.line = draft.document.line_of(mapping)
        draft.add(setting, VariableMapping(target, draft.text(source or "=null", TEMPLATE)))


def _subscription(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "correlationKey"):
        draft.put("correlation_key", draft.text(value_of(node, "correlationKey")))


def _loop(draft: Draft, node: etree._Element) -> None:
    draft.put("loop_counter_base", 1)
    for name, field in (("inputCollection", "collection"), ("outputElement", "output_element")):
        if value_of(node, name):
            draft.put(field, draft.text(value_of(node, name)))
    for name, field in (("inputElement", "element_variable"), ("outputCollection", "output_collection")):
        if value_of(node, name):
            draft.put(field, value_of(node, name))


def _called_element(draft: Draft, node: etree._Element) -> None:
    process = value_of(node, "processId") or value_of(node, "processIdExpression")
    if process:
        draft.called_element = draft.text(process, TEMPLATE)
    # Zeebe copies all variables beside the mapped ones unless it is told not to; back come the mapped ones,
    # and all only where none is mapped.
    draft.put("pass_all_inputs", parse_flag(value_of(node, "propagateAllParentVariables")) is not False)
    if parse_flag(value_of(node, "propagateAllChildVariables")) is False:
        draft.put("pass_all_outputs", False)
    match value_of(node, "bindingType"):
        case "latest" | "deployment" as binding:
            draft.put("called_version", binding)
        case "versionTag" if value_of(node, "versionTag"):
            draft.put("called_version_tag", value_of(node, "versionTag"))
        case "":
            pass
        case other:
            draft.bad(other, "latest, deployment, or versionTag with a version tag")


def _ad_hoc(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "activeElementsCollection"):
        draft.put("activate", draft.text(value_of(node, "activeElementsCollection")))


def _called_decision(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "decisionId"):
        draft.offer_topic(TopicRank.DECISION, value_of(node, "decisionId"))
    if value_of(node, "resultVariable"):
        draft.put("result_variable", value_of(node, "resultVariable"))


def _script(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "expression"):
        source = value_of(node, "expression")
        draft.put("expression", draft.text(source if source.startswith("=") else f"={source}", "feel"))
    if value_of(node, "resultVariable"):
        draft.put("result_variable", value_of(node, "resultVariable"))


def _texts(**fields: str) -> rows.ElementReader:
    """Attributes that each become one text."""

    def read(draft: Draft, node: etree._Element) -> None:
        for name, field in fields.items():
            if value_of(node, name):
                draft.put(field, draft.text(value_of(node, name), TEMPLATE))

    return read


def _priority(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "priority"):
        draft.put("priority", draft.text(value_of(node, "priority")))


def _form(draft: Draft, node: etree._Element) -> None:
    form = value_of(node, "formKey") or value_of(node, "formId") or value_of(node, "externalReference")
    if form:
        draft.put("form_key", form)


def _version_tag(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "value"):
        draft.put("version_tag", value_of(node, "value"))


_NOT_COLLECTED = "what the inner activities give is not collected"
_BINDING = (part("bindingType", "called_version"), part("versionTag", "called_version_tag"))
_FORM_BINDING = tuple(
    part(name, note="forms are not deployed here", treatment=Treatment.HARMLESS)
    for name in ("bindingType", "versionTag")
)

DIALECT = Dialect(
    "Camunda 8 (Zeebe)",
    ("http://camunda.org/schema/zeebe/1.0",),
    (
        element(
            "taskDefinition",
            _JOB,
            "topic",
            _task_definition,
            part("type", "topic", "a fixed name; for an expression the element's id counts, with a warning"),
            part("retries", "retry", "number of attempts"),
        ),
        element(
            "taskHeaders",
            rows.ANYWHERE,
            "properties",
            properties,
            element(
                "header",
                rows.ANYWHERE,
                "properties",
                None,
                part("id", note="for the modeller", treatment=Treatment.HARMLESS),
                part("key"),
                part("value"),
            ),
        ),
        element(
            "ioMapping",
            rows.ANYWHERE,
            "inputs, outputs",
            _io_mapping,
            *(
                element(
                    name,
                    rows.ANYWHERE,
                    setting,
                    None,
                    part("source"),
                    part("target", note="`a.b` is a path: the key `b` of the context `a`"),
                )
                for name, setting in (("input", "inputs"), ("output", "outputs"))
            ),
        ),
        element(
            "subscription",
            rows.MESSAGE,
            "Message.correlation_key",
            _subscription,
            part("correlationKey", "Message.correlation_key"),
        ),
        element(
            "loopCharacteristics",
            rows.MULTI_INSTANCE,
            "loop_counter_base",
            _loop,
            part("inputCollection", "collection"),
            part("inputElement", "element_variable"),
            part("outputCollection", "output_collection"),
            part("outputElement", "output_element"),
            note="`loopCounter` counts from 1",
        ),
        element(
            "calledElement",
            rows.CALL_ACTIVITY,
            "CallActivity.called_element",
            _called_element,
            part("processId", "CallActivity.called_element"),
            part("processIdExpression", "CallActivity.called_element"),
            part("propagateAllParentVariables", "pass_all_inputs", "true where it is not there"),
            part("propagateAllChildVariables", "pass_all_outputs", "all, where no output is mapped"),
            *_BINDING,
        ),
        element(
            "calledDecision",
            rows.RULE_TASK,
            "topic",
            _called_decision,
            part("decisionId", "topic"),
            part("resultVariable", "result_variable"),
            part("bindingType", note="the decision is a handler", treatment=Treatment.HARMLESS),
            part("versionTag", note="the decision is a handler", treatment=Treatment.HARMLESS),
            note=DECISION_NOTE,
            treatment=Treatment.DIFFERENT,
        ),
        element(
            "script",
            rows.SCRIPT_TASK,
            "expression",
            _script,
            part("expression", "expression"),
            part("resultVariable", "result_variable"),
        ),
        element("userTask", rows.USER_TASK, "", None, note="every user task is managed by the engine"),
        element(
            "assignmentDefinition",
            rows.USER_TASK,
            "assignee",
            _texts(assignee="assignee", candidateUsers="candidate_users", candidateGroups="candidate_groups"),
            part("assignee", "assignee"),
            part("candidateUsers", "candidate_users"),
            part("candidateGroups", "candidate_groups"),
        ),
        element(
            "taskSchedule",
            rows.USER_TASK,
            "due_date",
            _texts(dueDate="due_date", followUpDate="follow_up_date"),
            part("dueDate", "due_date"),
            part("followUpDate", "follow_up_date"),
        ),
        element("priorityDefinition", rows.USER_TASK, "priority", _priority, part("priority", "priority")),
        element(
            "jobPriorityDefinition",
            rows.NODE | rows.PROCESS,
            "priority",
            _priority,
            part("priority", "priority"),
        ),
        element(
            "formDefinition",
            rows.USER_TASK,
            "form_key",
            _form,
            part("formKey", "form_key"),
            part("formId", "form_key"),
            part("externalReference", "form_key"),
            *_FORM_BINDING,
        ),
        *ignored_elements("formDefinition", rows.START_EVENT, START_FORM_NOTE),
        *ignored_elements("userTaskForm", rows.PROCESS, "embedded forms are not read; use form fields"),
        element("versionTag", rows.PROCESS, "version_tag", _version_tag, part("value", "version_tag")),
        element(
            "properties",
            rows.ANYWHERE,
            "properties",
            properties,
            element("property", rows.ANYWHERE, "properties", None, part("name"), part("value")),
            note=PROPERTIES_NOTE,
        ),
        *elements_not_run(
            "executionListeners taskListeners", rows.ANYWHERE, "listeners do not run here; use a task"
        ),
        element(
            "adHoc",
            rows.AD_HOC,
            "activate",
            _ad_hoc,
            part("activeElementsCollection", "activate"),
            part("outputCollection", note=_NOT_COLLECTED, treatment=Treatment.IGNORED),
            part("outputElement", note=_NOT_COLLECTED, treatment=Treatment.IGNORED),
        ),
        *ignored_elements("linkedResources", rows.ANYWHERE, "resources are not deployed here"),
        *ignored_elements(
            "conditionalFilter",
            rows.CONDITIONAL_EVENT,
            "the condition is evaluated whenever a variable it reads changes",
        ),
        *harmless_attributes(
            "modelerTemplate modelerTemplateVersion modelerTemplateIcon retryCounter",
            rows.ANYWHERE,
            "for the modeller",
        ),
    ),
    prefix="zeebe",
)
