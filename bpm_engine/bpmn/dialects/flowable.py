"""Flowable and Activiti: one table for both, since the second is the ancestor of the first.

Camunda 7 reads `activiti:` attributes too; what it wrote in that namespace is understood as well.
"""

from __future__ import annotations

from lxml import etree

from bpm_engine.bpmn.dialects import rows
from bpm_engine.bpmn.dialects.camunda import FORM_PROPERTY, START_FORM_NOTE
from bpm_engine.bpmn.dialects.draft import Draft, TopicRank
from bpm_engine.bpmn.dialects.readers import (
    SERVICE_EXPRESSION_NOTE,
    built_in_type,
    delegate_name,
    flag,
    parse_flag,
    retry_cycle,
    service_expression,
    string,
    template,
    text,
    topic,
)
from bpm_engine.bpmn.dialects.rows import (
    AnyRow,
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
    injected_field,
    parameter_in,
    parameter_out,
    pass_only_what_is_mapped,
)
from bpm_engine.bpmn.document import text_of

_DELEGATING = rows.WORK | rows.THROW
_RESTING = rows.NODE | rows.MULTI_INSTANCE


def _inherit_variables(draft: Draft, value: str) -> None:
    pass_only_what_is_mapped(draft)
    flag("pass_all_inputs")(draft, value)


def _form_field_validation(draft: Draft, value: str) -> None:
    if parse_flag(value) is False:
        draft.differs("required fields are checked nevertheless")


def _same_deployment(draft: Draft, value: str) -> None:
    match parse_flag(value):
        case True:
            draft.put("called_version", "deployment")
        case None:
            draft.bad(value, "true or false")


def _retry(draft: Draft, node: etree._Element) -> None:
    retry_cycle(draft, text_of(node))


def _collection(draft: Draft, node: etree._Element) -> None:
    """`<collection><expression>…`: the string form is an expression's text as well."""
    for name in ("expression", "string"):
        for child in children(node, name):
            if text_of(child).strip():
                draft.put("collection", draft.text(text_of(child)))
    if node.get("class") or node.get("delegateExpression"):
        draft.not_run("the Java code that gives the collection does not run here")


_ROWS: tuple[AnyRow, ...] = (
    attribute("topic", _DELEGATING, "topic", topic(TopicRank.CAMUNDA_TOPIC)),
    attribute(
        "type",
        _DELEGATING,
        "topic",
        built_in_type,
        "`external-worker` is for external workers; mail, http … need a handler of that name (warning)",
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
    attribute("resultVariable", rows.ACTIVITY, "result_variable", string("result_variable")),
    attribute("resultVariableName", rows.ACTIVITY, "result_variable", string("result_variable")),
    attribute("assignee", rows.USER_TASK, "assignee", template("assignee")),
    attribute("candidateUsers", rows.USER_TASK, "candidate_users", template("candidate_users")),
    attribute("candidateGroups", rows.USER_TASK, "candidate_groups", template("candidate_groups")),
    attribute("dueDate", rows.USER_TASK, "due_date", template("due_date")),
    attribute("followUpDate", rows.USER_TASK, "follow_up_date", template("follow_up_date")),
    attribute("priority", rows.USER_TASK, "priority", text("priority")),
    attribute("formKey", rows.USER_TASK, "form_key", string("form_key")),
    FORM_PROPERTY,
    *ignored_attributes("formKey", rows.START_EVENT, START_FORM_NOTE),
    *ignored_elements("formProperty", rows.START_EVENT, START_FORM_NOTE),
    *ignored_attributes("owner category", rows.USER_TASK, "a task has an assignee and candidates"),
    *ignored_attributes(
        "businessCalendarName taskIdVariableName activeTaskIdVariableName taskCompleterVariableName",
        rows.USER_TASK,
        "there is no counterpart",
    ),
    *ignored_attributes(
        "caseDefinitionKey caseInstanceName",
        rows.WORK,
        "cases (CMMN) do not run here; a handler does the work",
    ),
    *ignored_attributes(
        "skipExpression", rows.ACTIVITY, "nothing is skipped; use a gateway or a conditional flow"
    ),
    attribute(
        "formFieldValidation",
        rows.NODE,
        "",
        _form_field_validation,
        "required fields are always checked (warning if it is false)",
    ),
    attribute("async", _RESTING, "async_before", flag("async_before")),
    attribute("asyncBefore", _RESTING, "async_before", flag("async_before")),
    attribute("asyncAfter", _RESTING, "async_after", flag("async_after")),
    attribute("asyncLeave", _RESTING, "async_after", flag("async_after")),
    *harmless_attributes(
        "exclusive asyncLeaveExclusive", _RESTING, "steps of one instance never commit at the same time"
    ),
    element("failedJobRetryTimeCycle", _RESTING, "retry", _retry, values="cycle"),
    *ignored_attributes("triggerable", rows.WORK, "the task is done when its handler returns"),
    *ignored_attributes(
        "useLocalScopeForResultVariable storeResultVariableAsTransient autoStoreVariables "
        "parallelInSameTransaction doNotIncludeVariables",
        rows.WORK,
        "results become variables of the surrounding scope",
    ),
    *harmless_attributes("extensionId", rows.WORK, "for the modeller"),
    *ignored_attributes(
        "ruleVariablesInput rules exclude", rows.RULE_TASK, "rules do not run here; a handler does"
    ),
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
        part("targetExpression", note="a target is a fixed name", treatment=Treatment.IGNORED),
        part("transient", note="variables are stored", treatment=Treatment.IGNORED),
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
        part("targetExpression", note="a target is a fixed name", treatment=Treatment.IGNORED),
        part("transient", note="variables are stored", treatment=Treatment.IGNORED),
    ),
    attribute("inheritVariables", rows.CALL_ACTIVITY, "pass_all_inputs", _inherit_variables),
    attribute("inheritBusinessKey", rows.CALL_ACTIVITY, "inherit_business_key", flag("inherit_business_key")),
    attribute("businessKey", rows.CALL_ACTIVITY, "business_key", template("business_key")),
    attribute("sameDeployment", rows.CALL_ACTIVITY, "called_version", _same_deployment),
    *ignored_attributes(
        "calledElementType processInstanceName processInstanceIdVariableName fallbackToDefaultTenant "
        "useLocalScopeForOutParameters idVariableName",
        rows.CALL_ACTIVITY,
        "there is no counterpart",
    ),
    *harmless_attributes("completeAsync", rows.CALL_ACTIVITY, "a child's end resumes its caller safely"),
    attribute("collection", rows.MULTI_INSTANCE, "collection", text("collection")),
    element(
        "collection",
        rows.MULTI_INSTANCE,
        "collection",
        _collection,
        part("class", note="Java code does not run here"),
        part("delegateExpression", note="Java code does not run here"),
        element("string", rows.ANYWHERE, "collection", None),
        element("expression", rows.ANYWHERE, "collection", None),
    ),
    attribute("elementVariable", rows.MULTI_INSTANCE, "element_variable", string("element_variable")),
    *ignored_attributes(
        "elementIndexVariable", rows.MULTI_INSTANCE, "the index is the variable `loopCounter`"
    ),
    *ignored_elements("variableAggregation", rows.MULTI_INSTANCE, "use `bpm:outputCollection`"),
    attribute("errorVariableName", rows.ERROR_EVENT, "error_code_variable", string("error_code_variable")),
    attribute("errorCodeVariable", rows.ERROR_EVENT, "error_code_variable", string("error_code_variable")),
    attribute(
        "errorMessageVariable",
        rows.ERROR_EVENT,
        "error_message_variable",
        string("error_message_variable"),
    ),
    *ignored_attributes(
        "errorVariableLocalScope errorVariableTransient",
        rows.ERROR_EVENT,
        "the code becomes a variable of the surrounding scope",
    ),
    attribute("messageExpression", rows.MESSAGE_EVENT, "MessageDefinition.expression", None),
    attribute("signalExpression", rows.SIGNAL_EVENT, "SignalDefinition.expression", None),
    attribute(
        "endDate", rows.place("cycle", "timeCycle"), "TimerDefinition.text", None, "cron texts have no end"
    ),
    *ignored_attributes("businessCalendarName", rows.TIMER, "there are no calendars of business days"),
    *harmless_attributes("async", rows.SIGNAL_EVENT, "each delivery of a signal is a step of its own"),
    *ignored_attributes("scope", rows.place("signal", "signal"), "a signal reaches the whole tenant"),
    *ignored_attributes(
        "terminateAll terminateMultiInstance",
        rows.place("terminate event", "terminateEventDefinition"),
        "the innermost scope ends (BPMN 2.0.2, 13.5.6)",
    ),
    attribute("versionTag", rows.PROCESS, "version_tag", string("version_tag")),
    *ignored_attributes(
        "candidateStarterUsers candidateStarterGroups", rows.PROCESS, "who may start is decided by the caller"
    ),
    *harmless_attributes(
        "isEagerExecutionFetching enableEagerExecutionTreeFetching",
        rows.PROCESS,
        "for that engine's database",
    ),
    *ignored_attributes("initiator", rows.START_EVENT, "pass the person who starts as a variable"),
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
    *elements_not_run(
        "executionListener taskListener eventListener",
        rows.ANYWHERE,
        "listeners do not run here; use a task or `bpm:emit`",
    ),
    *elements_not_run(
        "httpRequestHandler httpResponseHandler", rows.WORK, "Java code does not run here; use a handler"
    ),
    *ignored_elements("mapException", rows.WORK, "a handler raises the error itself with `BpmnError`"),
    *ignored_elements(
        "eventType eventName triggerEventType triggerEventName eventInParameter eventOutParameter "
        "eventCorrelationParameter triggerEventCorrelationParameter channelKey triggerChannelKey "
        "sendSynchronously startEventCorrelationConfiguration",
        rows.ANYWHERE,
        "there is no event registry; use messages",
    ),
    *ignored_elements(
        "customResource potentialStarter", rows.ANYWHERE, "who may act is decided by the caller"
    ),
    element("value", rows.DATA_OBJECT, "DataItem.initial", None, values="text"),
    *(
        element(name, rows.ANYWHERE, "", None, note="for the modeller", treatment=Treatment.HARMLESS)
        for name in ("localization",)
    ),
)

FLOWABLE = Dialect("Flowable", ("http://flowable.org/bpmn",), _ROWS, prefix="flowable")
ACTIVITI = Dialect(
    "Activiti", ("http://activiti.org/bpmn", "http://www.activiti.org/bpmn"), _ROWS, prefix="activiti"
)
