"""Activities: tasks, call activities, sub-processes, and global tasks (10.3)."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Literal, TypedDict

from lxml import etree

from bpm_engine.bpmn.dialects.draft import DIALECT_DIFFERENT
from bpm_engine.bpmn.dialects.readers import is_expression
from bpm_engine.bpmn.dialects.reading import Extensions
from bpm_engine.bpmn.dialects.spiff import NAMESPACE as SPIFF
from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.model import (
    CallActivity,
    Container,
    DataAssociation,
    DataItem,
    GlobalTask,
    IoSpecification,
    MultiInstance,
    StandardLoop,
    SubProcess,
    Task,
)
from bpm_engine.bpmn.parsing.data import data_associations, data_items, io_specification
from bpm_engine.bpmn.parsing.events import operation_message
from bpm_engine.bpmn.parsing.loops import loop
from bpm_engine.bpmn.parsing.people import with_people
from bpm_engine.bpmn.parsing.reading import Reading, child, flag, number, tag_of
from bpm_engine.bpmn.settings import NO_SETTINGS, Settings
from bpm_engine.bpmn.text import TEMPLATE, Text

TASK_TAGS = frozenset(
    {
        "task",
        "manualTask",
        "serviceTask",
        "sendTask",
        "receiveTask",
        "userTask",
        "scriptTask",
        "businessRuleTask",
    }
)
SUB_PROCESS_TAGS = frozenset({"subProcess", "transaction", "adHocSubProcess"})
GLOBAL_TASK_TAGS = frozenset(
    {"globalTask", "globalManualTask", "globalUserTask", "globalScriptTask", "globalBusinessRuleTask"}
)
_USER_TASKS = frozenset({"userTask", "globalUserTask"})
_NAMED_BY_ID = frozenset({"serviceTask", "businessRuleTask", "globalBusinessRuleTask"})
_SCRIPTS = frozenset({"scriptTask", "globalScriptTask"})


class _Common(TypedDict):
    """What all activities share."""

    tag: str
    default: str | None
    is_for_compensation: bool
    start_quantity: int
    completion_quantity: int
    loop: StandardLoop | MultiInstance | None
    io: IoSpecification | None
    data_associations: tuple[DataAssociation, ...]
    properties: tuple[DataItem, ...]


def _common(reading: Reading, element: etree._Element) -> _Common:
    return _Common(
        tag=tag_of(element),
        default=reading.reference(element.get("default")),
        is_for_compensation=flag(element, "isForCompensation", default=False),
        start_quantity=number(element, "startQuantity", 1),
        completion_quantity=number(element, "completionQuantity", 1),
        loop=loop(reading, element),
        io=io_specification(reading, element),
        data_associations=data_associations(reading, element),
        properties=data_items(reading, element, "property"),
    )


def task(reading: Reading, element: etree._Element) -> Task:
    operation = element.get("operationRef")
    message = reading.reference(element.get("messageRef")) or operation_message(reading, operation)
    written = script(reading, element)
    settings = reading.extensions.settings(element)
    return Task(
        **reading.facts(element),
        **_common(reading, element),
        settings=_task_settings(reading, element, settings, message, written),
        message=message,
        operation=reading.reference(operation),
        implementation=(element.get("implementation") or "").strip() or None,
        instantiate=flag(element, "instantiate", default=False),
        script=written,
    )


def _task_settings(
    reading: Reading,
    element: etree._Element,
    settings: Settings,
    message: str | None = None,
    written: Text | None = None,
) -> Settings:
    tag = tag_of(element)
    if tag in _USER_TASKS:
        return with_people(reading, element, settings)
    if settings.topic is None and settings.expression is None and _needs_handler(tag, message, written):
        identifier = reading.identities.of(element)
        if settings is NO_SETTINGS:
            return Settings(topic=identifier, handler_source="id")
        return replace(settings, topic=identifier, handler_source="id")
    return settings


def _needs_handler(tag: str, message: str | None, written: Text | None) -> bool:
    """Work without a name is called by its id. A send task with a message sends it by itself."""
    if tag in _SCRIPTS:
        return written is None
    return tag in _NAMED_BY_ID or (tag == "sendTask" and message is None)


def script(reading: Reading, element: etree._Element) -> Text | None:
    found = child(element, "script")
    source = "" if found is None else textwrap.dedent(text_of(found).expandtabs(4)).strip()
    if found is None or not source:
        return None
    # BPMN 10.3.3.5 has scriptFormat on the task; globalScriptTask calls it scriptLanguage.
    language = (element.get("scriptFormat") or element.get("scriptLanguage") or "").strip()
    line = reading.document.line_of(found)
    if SPIFF in reading.document.root.nsmap.values() and language in ("", "python"):
        message = "scripts of SpiffWorkflow are Python; here each line is one assignment `name = expression`"
        reading.extensions.problems.append(
            DIALECT_DIFFERENT.at(message, element_id=reading.identities.of(element), line=line or None)
        )
        language = ""
    return Text(source, language, line)


def call_activity(reading: Reading, element: etree._Element) -> CallActivity:
    extensions = reading.extensions.read(element)
    return CallActivity(
        **reading.facts(element),
        **_common(reading, element),
        settings=extensions.settings,
        called_element=_called_element(reading, element, extensions),
    )


def _called_element(reading: Reading, element: etree._Element, extensions: Extensions) -> Text | None:
    written = (element.get("calledElement") or "").strip()
    if not written:
        return extensions.called_element
    line = reading.document.line_of(element)
    if is_expression(written):
        return Text(written, TEMPLATE, line)
    resolved = reading.reference(written)
    prefix, _, local = written.rpartition(":")
    # A prefix of the file is a namespace; any other colon belongs to the key.
    return Text(resolved or (local if prefix in element.nsmap else written), TEMPLATE, line)


def sub_process(reading: Reading, element: etree._Element) -> SubProcess:
    return SubProcess(
        **reading.facts(element),
        **_common(reading, element),
        settings=reading.extensions.settings(element),
        content=reading.contents.get(element) or Container(),
        triggered_by_event=flag(element, "triggeredByEvent", default=False),
        ordering=_ordering(element),
        completion_condition=reading.text_in(element, "completionCondition"),
        cancel_remaining=flag(element, "cancelRemainingInstances", default=True),
        method=(element.get("method") or "").strip(),
    )


def _ordering(element: etree._Element) -> Literal["Parallel", "Sequential"]:
    return "Sequential" if element.get("ordering") == "Sequential" else "Parallel"


def global_task(reading: Reading, element: etree._Element) -> GlobalTask:
    written = script(reading, element)
    settings = reading.extensions.settings(element)
    return GlobalTask(
        **reading.facts(element),
        tag=tag_of(element),
        settings=_task_settings(reading, element, settings, written=written),
        script=written,
        io=io_specification(reading, element),
    )
