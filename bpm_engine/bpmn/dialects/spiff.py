"""SpiffWorkflow: `http://spiffworkflow.org/bpmn/schema/1.0/core`. Expressions are Python."""

from __future__ import annotations

from lxml import etree

from bpm_engine.bpmn.dialects import rows
from bpm_engine.bpmn.dialects.camunda import DECISION_NOTE, PROPERTIES_NOTE
from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.rows import (
    Dialect,
    Treatment,
    element,
    elements_not_run,
    harmless_attributes,
    ignored_elements,
    part,
)
from bpm_engine.bpmn.dialects.structures import children, local, properties, value_of
from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.settings import VariableMapping

NAMESPACE = "http://spiffworkflow.org/bpmn/schema/1.0/core"


def _operator(draft: Draft, node: etree._Element) -> None:
    if value_of(node, "id"):
        draft.offer_topic(TopicRank.CLASS, value_of(node, "id"))
    if value_of(node, "resultVariable"):
        draft.put("result_variable", value_of(node, "resultVariable"))
    for parameters in children(node, "parameters"):
        for parameter in children(parameters, "parameter"):
            name = value_of(parameter, "id") or value_of(parameter, "name")
            if name and value_of(parameter, "value"):
                draft.add("inputs", VariableMapping(name, draft.text(value_of(parameter, "value"))))


def _decision(draft: Draft, node: etree._Element) -> None:
    if text_of(node).strip():
        draft.offer_topic(TopicRank.DECISION, text_of(node).strip())


def _properties(draft: Draft, node: etree._Element) -> None:
    """A user task's form is a property there."""
    properties(draft, node)
    form = draft.values.get("properties", {}).get("formJsonSchemaFilename", "")
    if form and local(draft.owner) == "userTask":
        draft.put("form_key", form)


def _payload_variable(draft: Draft, node: etree._Element) -> None:
    if text_of(node).strip():
        draft.put("payload_variable", text_of(node).strip())


DIALECT = Dialect(
    "SpiffWorkflow",
    (NAMESPACE,),
    (
        element(
            "serviceTaskOperator",
            rows.WORK,
            "topic",
            _operator,
            part("id", "topic"),
            part("resultVariable", "result_variable"),
            element(
                "parameters",
                rows.ANYWHERE,
                "inputs",
                None,
                element(
                    "parameter",
                    rows.ANYWHERE,
                    "inputs",
                    None,
                    part("id"),
                    part("name"),
                    part("type", note="a value has its own type", treatment=Treatment.HARMLESS),
                    part("value"),
                ),
            ),
        ),
        element(
            "calledDecisionId",
            rows.RULE_TASK,
            "topic",
            _decision,
            note=DECISION_NOTE,
            treatment=Treatment.DIFFERENT,
            values="name",
        ),
        element(
            "messageVariable",
            rows.MESSAGE_POSITION | rows.MESSAGE,
            "payload_variable",
            _payload_variable,
            values="name",
        ),
        *ignored_elements(
            "messagePayload processVariableCorrelation",
            rows.ANYWHERE,
            "use correlation keys and properties, or `bpm:input` for the payload",
        ),
        element(
            "properties",
            rows.ANYWHERE,
            "properties",
            _properties,
            element("property", rows.ANYWHERE, "properties", None, part("name"), part("value")),
            note=f"`formJsonSchemaFilename` of a user task is its form key; {PROPERTIES_NOTE}",
        ),
        *elements_not_run(
            "preScript postScript", rows.ANYWHERE, "Python does not run here; use a script task or mappings"
        ),
        *ignored_elements(
            "allowGuest guestConfirmation taskMetadataValues signalButtonLabel payloadExpression "
            "variableName",
            rows.ANYWHERE,
            "there is no counterpart",
        ),
        *(
            element(name, rows.ANYWHERE, "", None, note="for people and tools", treatment=Treatment.HARMLESS)
            for name in ("instructionsForEndUser", "unitTests", "category")
        ),
        *harmless_attributes("isOutputSynced isMatchingCorrelation", rows.ANYWHERE, "for that engine"),
    ),
    prefix="spiffworkflow",
)
