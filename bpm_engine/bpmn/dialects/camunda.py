"""Camunda 7: `http://camunda.org/schema/1.0/bpmn`."""

from __future__ import annotations

from lxml import etree

from bpm_engine.bpmn.dialects import rows
from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.readers import (
    SERVICE_EXPRESSION_NOTE,
    built_in_type,
    days_or_duration,
    delegate_name,
    flag,
    parse_integer,
    retry_cycle,
    service_expression,
    string,
    template,
    text,
    topic,
)
from bpm_engine.bpmn.dialects.rows import (
    Dialect,
    Treatment,
    attribute,
    element,
    elements_not_run,
    harmless_attributes,
    ignored_attributes,
    ignored_elements,
    part,
)
from bpm_engine.bpmn.dialects.structures import (
    children,
    form_data,
    form_property,
    injected_field,
    input_output,
    parameter_in,
    parameter_out,
    properties,
)
from bpm_engine.bpmn.document import text_of

_DELEGATING = rows.WORK | rows.THROW
_RESTING = rows.NODE | rows.MULTI_INSTANCE

INPUT_OUTPUT_PARTS = tuple(
    element(
        name,
        rows.ANYWHERE,
        setting,
        None,
        part("name"),
        element("list", rows.ANYWHERE, setting, None, note="a list"),
        element("map", rows.ANYWHERE, setting, None, note="a map"),
        element(
            "script",
            rows.ANYWHERE,
            "",
            None,
            note="the parameter is not mapped (warning `DIALECT_NOT_RUN`)",
            treatment=Treatment.HARMLESS,  # its reader reports it, by the parameter's name
        ),
        values="text, list or map",
    )
    for name, setting in (("inputParameter", "inputs"), ("outputParameter", "outputs"))
)


def _binding(draft: Draft, value: str) -> None:
    """`version` and `versionTag` are spelled out by attributes of their own."""
    if value in ("latest", "deployment"):
        draft.put("called_version", value)
    elif value not in ("version", "versionTag", ""):
        draft.bad(value, "latest, deployment, version or versionTag")


def _version(draft: Draft, value: str) -> None:
    number = parse_integer(value, minimum=1)
    if number is not None:
        draft.put("called_version", str(number))
    elif value.strip():
        draft.bad(value, "a fixed version number")


def _decision(draft: Draft, value: str) -> None:
    if value.strip():
        draft.offer_topic(TopicRank.DECISION, value.strip())


def _retry(draft: Draft, node: etree._Element) -> None:
    retry_cycle(draft, text_of(node))


def _connector(draft: Draft, node: etree._Element) -> None:
    for identifier in children(node, "connectorId"):
        if text_of(identifier).strip():
            draft.offer_topic(TopicRank.CONNECTOR, text_of(identifier).strip())
    for mapping in children(node, "inputOutput"):
        input_output(draft, mapping)


FORM_PROPERTY = element(
    "formProperty",
    rows.USER_TASK,
    "fields",
    form_property,
    part("id", "name"),
    part("name", "label"),
    part("type", "type", "`long` is integer, `double` is number"),
    part("required", "required"),
    part("default", "default"),
    part("variable", note="the field's name is the variable (warning if they differ)"),
    part("expression", note="the value is a variable of the field's name", treatment=Treatment.IGNORED),
    part("defaultExpression", note="a default is a fixed text", treatment=Treatment.IGNORED),
    part("datePattern", note="dates are ISO 8601", treatment=Treatment.IGNORED),
    part("readable", note="forms are drawn elsewhere", treatment=Treatment.HARMLESS),
    part("writable", note="every field may be written", treatment=Treatment.IGNORED),
    part("writeable", note="every field may be written", treatment=Treatment.IGNORED),
    element("value", rows.ANYWHERE, "values", None, part("id"), part("name")),
)

PROPERTIES_NOTE = "handlers and external workers are given them, other elements make nothing of them"
START_FORM_NOTE = "a start has no form here; check what you hand to `start`"
DECISION_NOTE = "decision tables do not run here; the handler of that topic decides"

DIALECT = Dialect(
    "Camunda 7",
    ("http://camunda.org/schema/1.0/bpmn",),
    (
        attribute("topic", _DELEGATING, "topic", topic(TopicRank.CAMUNDA_TOPIC)),
        attribute(
            "type",
            _DELEGATING,
            "topic",
            built_in_type,
            "`external` is for external workers; mail, shell … need a handler of that name (warning)",
        ),
        attribute("delegateExpression", _DELEGATING, "topic", delegate_name, "the bean's name is the topic"),
        attribute("class", _DELEGATING, "topic", topic(TopicRank.CLASS), "the class name is the topic"),
        attribute(
            "expression",
            _DELEGATING,
            "expression",
            service_expression,
            SERVICE_EXPRESSION_NOTE,
        ),
        attribute("resultVariable", rows.ACTIVITY | rows.THROW, "result_variable", string("result_variable")),
        attribute(
            "decisionRef", rows.RULE_TASK, "topic", _decision, DECISION_NOTE, treatment=Treatment.DIFFERENT
        ),
        *harmless_attributes(
            "decisionRefBinding decisionRefVersion decisionRefVersionTag decisionRefTenantId",
            rows.RULE_TASK,
            "the decision is a handler",
        ),
        *ignored_attributes("mapDecisionResult", rows.RULE_TASK, "the handler's result is stored as it is"),
        attribute("assignee", rows.USER_TASK, "assignee", template("assignee")),
        attribute("candidateUsers", rows.USER_TASK, "candidate_users", template("candidate_users")),
        attribute("candidateGroups", rows.USER_TASK, "candidate_groups", template("candidate_groups")),
        attribute("dueDate", rows.USER_TASK, "due_date", template("due_date")),
        attribute("followUpDate", rows.USER_TASK, "follow_up_date", template("follow_up_date")),
        attribute("priority", rows.USER_TASK, "priority", text("priority")),
        attribute("formKey", rows.USER_TASK, "form_key", string("form_key")),
        attribute("formRef", rows.USER_TASK, "form_key", string("form_key")),
        *ignored_attributes("formKey formRef", rows.START_EVENT, START_FORM_NOTE),
        *ignored_elements("formData formProperty", rows.START_EVENT, START_FORM_NOTE),
        *harmless_attributes(
            "formRefBinding formRefVersion", rows.USER_TASK | rows.START_EVENT, "forms are not deployed here"
        ),
        attribute(
            "formHandlerClass",
            rows.USER_TASK | rows.START_EVENT,
            "",
            None,
            "Java code does not run here; a guard or a task checks what was handed in",
            treatment=Treatment.NOT_RUN,
        ),
        element(
            "formData",
            rows.USER_TASK,
            "fields",
            form_data,
            part("businessKey", note="the business key is given to `start`", treatment=Treatment.IGNORED),
            element(
                "formField",
                rows.ANYWHERE,
                "fields",
                None,
                part("id", "name"),
                part("label", "label"),
                part("type", "type", "`long` is integer; a custom type is read as string, with a warning"),
                part("defaultValue", "default"),
                part("datePattern", note="dates are ISO 8601", treatment=Treatment.IGNORED),
                element("value", rows.ANYWHERE, "values", None, part("id"), part("name")),
                element(
                    "properties",
                    rows.ANYWHERE,
                    "",
                    None,
                    note="forms are drawn elsewhere",
                    treatment=Treatment.HARMLESS,
                ),
                element(
                    "validation",
                    rows.ANYWHERE,
                    "required",
                    None,
                    element("constraint", rows.ANYWHERE, "required", None, part("name"), part("config")),
                    note="only `required` is checked; others are a warning",
                ),
            ),
        ),
        FORM_PROPERTY,
        attribute("async", _RESTING, "async_before", flag("async_before")),
        attribute("asyncBefore", _RESTING, "async_before", flag("async_before")),
        attribute("asyncAfter", _RESTING, "async_after", flag("async_after")),
        *harmless_attributes("exclusive", _RESTING, "steps of one instance never commit at the same time"),
        element(
            "failedJobRetryTimeCycle",
            _RESTING,
            "retry",
            _retry,
            note="R3/PT10S is three attempts, ten seconds apart",
            values="cycle or intervals",
        ),
        attribute("jobPriority", rows.NODE | rows.PROCESS, "priority", text("priority")),
        attribute("taskPriority", rows.NODE | rows.PROCESS | rows.THROW, "priority", text("priority")),
        element("inputOutput", rows.ANYWHERE, "inputs, outputs", input_output, *INPUT_OUTPUT_PARTS),
        element(
            "in",
            rows.CALL_ACTIVITY | rows.SIGNAL_EVENT,
            "inputs",
            parameter_in,
            part("source"),
            part("sourceExpression"),
            part("target"),
            part("variables", "pass_all_inputs", values="all"),
            part("businessKey", "business_key", "`#{execution.processBusinessKey}` is the caller's own"),
            part("local", note="variables of outer scopes are passed as well", treatment=Treatment.DIFFERENT),
        ),
        element(
            "out",
            rows.CALL_ACTIVITY,
            "outputs",
            parameter_out,
            part("source"),
            part("sourceExpression"),
            part("target"),
            part("variables", "pass_all_outputs", values="all"),
            part(
                "local", note="the target is a variable of the caller's scope", treatment=Treatment.DIFFERENT
            ),
        ),
        attribute("calledElementBinding", rows.CALL_ACTIVITY, "called_version", _binding),
        attribute("calledElementVersion", rows.CALL_ACTIVITY, "called_version", _version),
        attribute(
            "calledElementVersionTag", rows.CALL_ACTIVITY, "called_version_tag", string("called_version_tag")
        ),
        *ignored_attributes(
            "calledElementTenantId", rows.CALL_ACTIVITY, "the called process is one of the same tenant"
        ),
        *ignored_attributes(
            "variableMappingClass variableMappingDelegateExpression",
            rows.CALL_ACTIVITY,
            "Java code does not run here; use mappings",
        ),
        *ignored_attributes(
            "caseRef caseBinding caseVersion caseTenantId", rows.CALL_ACTIVITY, "cases (CMMN) do not run here"
        ),
        attribute("collection", rows.MULTI_INSTANCE, "collection", text("collection")),
        attribute("elementVariable", rows.MULTI_INSTANCE, "element_variable", string("element_variable")),
        attribute(
            "errorCodeVariable", rows.ERROR_EVENT, "error_code_variable", string("error_code_variable")
        ),
        attribute(
            "errorMessageVariable",
            rows.ERROR_EVENT,
            "error_message_variable",
            string("error_message_variable"),
        ),
        attribute(
            "escalationCodeVariable",
            rows.ESCALATION_EVENT,
            "error_code_variable",
            string("error_code_variable"),
        ),
        attribute("errorMessage", rows.ERROR, "Error.message", None),
        *ignored_attributes(
            "variableName variableEvents",
            rows.CONDITIONAL_EVENT,
            "the condition is evaluated whenever a variable it reads changes",
        ),
        *harmless_attributes("async", rows.SIGNAL_EVENT, "each delivery of a signal is a step of its own"),
        attribute("versionTag", rows.PROCESS, "version_tag", string("version_tag")),
        attribute("historyTimeToLive", rows.PROCESS, "retention", days_or_duration("retention")),
        *ignored_attributes(
            "candidateStarterUsers candidateStarterGroups",
            rows.PROCESS,
            "who may start is decided by the caller",
        ),
        *harmless_attributes("isStartableInTasklist", rows.PROCESS, "there is no task list here"),
        *ignored_attributes("initiator", rows.START_EVENT, "pass the person who starts as a variable"),
        *ignored_attributes("resource", rows.ANYWHERE, "scripts are part of the file here"),
        *harmless_attributes(
            "modelerTemplate modelerTemplateVersion modelerTemplateIcon diagramRelationId",
            rows.ANYWHERE,
            "for the modeller",
        ),
        element(
            "properties",
            rows.ANYWHERE,
            "properties",
            properties,
            element("property", rows.ANYWHERE, "properties", None, part("id"), part("name"), part("value")),
            note=PROPERTIES_NOTE,
        ),
        element(
            "field",
            _DELEGATING,
            "properties",
            injected_field,
            part("name"),
            part("stringValue"),
            part("expression", "inputs"),
            element("string", rows.ANYWHERE, "properties", None),
            element("expression", rows.ANYWHERE, "inputs", None),
        ),
        element(
            "connector",
            _DELEGATING,
            "topic",
            _connector,
            element("connectorId", rows.ANYWHERE, "topic", None),
            element("inputOutput", rows.ANYWHERE, "inputs, outputs", None, *INPUT_OUTPUT_PARTS),
            note="no connector runs here; its id is the topic of a handler",
            treatment=Treatment.DIFFERENT,
        ),
        *elements_not_run(
            "executionListener taskListener",
            rows.ANYWHERE,
            "listeners do not run here; use a task or `bpm:emit`",
        ),
        *ignored_elements(
            "errorEventDefinition", rows.WORK, "a handler raises the error itself with `BpmnError`"
        ),
        *ignored_elements("potentialStarter", rows.PROCESS, "who may start is decided by the caller"),
        *ignored_elements("constraint validation", rows.ANYWHERE, "it belongs into a form field"),
    ),
    prefix="camunda",
)
