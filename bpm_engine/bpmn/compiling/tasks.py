"""What a task becomes: who does its work.

The engine itself evaluates scripts in our own notations; a person does user tasks; everything else is
work for a handler. An explicit topic always wins; without one the element's id is the topic. A script
in a language that does not run here is never executed: it needs a handler, and the author is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.events import Events
from bpm_engine.bpmn.compiling.texts import Texts, notation_of
from bpm_engine.bpmn.events import MessageEvent
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Kind, Spec
from bpm_engine.bpmn.text import Text
from bpm_engine.problems import Findings, error, warning

SCRIPT_FORMAT = warning(
    "SCRIPT_FORMAT",
    "Scripts of other languages are never executed; a handler of the task's id must do the work.",
    "Set bpm:topic and register a handler, or write the script in scriptFormat bpm, feel or juel.",
)
TOPIC_IGNORED = warning(
    "TOPIC_IGNORED",
    "A handler works for service, send, business rule and script tasks and for single message throws.",
    "Make the element a service task, or remove the topic.",
)
CALL_WITHOUT_TARGET = error(
    "CALL_WITHOUT_TARGET",
    "A call activity says what it calls (10.2.5).",
    "Set calledElement to the id of a process.",
)
FIELD_TWICE = error("FIELD_TWICE", "The fields of a form have different names.", "Rename one of the fields.")

Meaning = tuple[Kind, Spec | None]


@dataclass(frozen=True, slots=True)
class Tasks:
    texts: Texts
    events: Events
    findings: Findings

    def meaning(self, task: model.Task, lane: str | None) -> Meaning:
        match task.tag:
            case "userTask":
                return Kind.HUMAN, self._human(task, lane)
            case "receiveTask":
                waits = self.events.message(task.message, task, task.settings)
                return Kind.CATCH, graph.Catch((waits,), instantiate=task.instantiate)
            case "sendTask":
                return self._send(task)
            case "scriptTask":
                return self._script(task)
            case "serviceTask" | "businessRuleTask":
                return self._service(task)
            case _:
                self.warn_ignored_topic(task)
                return Kind.PASS, None

    def work(self, node: model.FlowNode, topic: str, sends: MessageEvent | None = None) -> graph.Work:
        settings = node.settings
        return graph.Work(
            topic=topic,
            retry=self._retry(node),
            lease=self.texts.duration_setting(settings.lease, "lease", node),
            priority=self.texts.optional(settings.priority, node),
            external=settings.external,
            on_failure=settings.on_failure,
            properties=FrozenDict(settings.properties),
            result_variable=settings.result_variable,
            sends=sends,
        )

    def call(self, activity: model.CallActivity) -> graph.Call:
        settings = activity.settings
        if activity.called_element is None or not activity.called_element.source.strip():
            self.findings.add(
                CALL_WITHOUT_TARGET.at(
                    "the call activity does not say what it calls", element_id=activity.id, line=activity.line
                )
            )
        called = activity.called_element or Text(activity.id, line=activity.line)
        return graph.Call(
            called=self.texts.template(called, activity),
            version=self._version(activity),
            version_tag=settings.called_version_tag,
            pass_all_inputs=settings.pass_all_inputs is not False,
            pass_all_outputs=settings.pass_all_outputs is not False,
            business_key=self.texts.optional_template(settings.business_key, activity),
            inherit_business_key=settings.inherit_business_key,
        )

    def warn_ignored_topic(self, node: model.FlowNode) -> None:
        if node.settings.topic:
            message = f"the topic {node.settings.topic!r} has no meaning on this element"
            self.findings.add(TOPIC_IGNORED.at(message, element_id=node.id, line=node.line))

    # -------------------------------------------------------------- service, send, script

    def _service(self, task: model.Task) -> Meaning:
        settings = task.settings
        if settings.topic or settings.expression is None:
            return Kind.WORK, self.work(task, settings.topic or _own_name(task))
        return self._evaluated(task, settings.expression)

    def _send(self, task: model.Task) -> Meaning:
        """With a message and no handler of its own, a send task throws its message (bpmn.md, 23)."""
        settings = task.settings
        sends = self.events.message(task.message, task, settings) if task.message else None
        if settings.topic:
            return Kind.WORK, self.work(task, settings.topic, sends)
        if settings.expression is not None:
            return self._evaluated(task, settings.expression)
        if sends is not None:
            return Kind.THROW, graph.Throw((sends,))
        return Kind.WORK, self.work(task, _own_name(task))

    def _script(self, task: model.Task) -> Meaning:
        settings = task.settings
        if settings.topic:
            return Kind.WORK, self.work(task, settings.topic)
        if settings.expression is not None:
            return self._evaluated(task, settings.expression)
        if task.script is None or not task.script.source.strip():
            return Kind.WORK, self.work(task, _own_name(task))
        return self._scripted(task, task.script)

    def _scripted(self, task: model.Task, text: Text) -> Meaning:
        language = self.texts.language_of(text)
        # What only the file declares may hold for some scripts and not for others.
        script = None if text.language else self.texts.attempt_script(text)
        if script is None and notation_of(language) is None:
            return self._foreign(task, f"scripts in {language!r} do not run here")
        script = script or self.texts.script(text, task)
        if script is None:
            return Kind.WORK, self.work(task, _own_name(task))
        return Kind.SCRIPT, graph.ScriptSpec(script, task.settings.result_variable)

    def _evaluated(self, task: model.Task, text: Text) -> Meaning:
        script = self.texts.attempt_script(text)
        if script is None:
            return self._foreign(task, f"{text.source.strip()[:80]!r} is not an expression that runs here")
        return Kind.SCRIPT, graph.ScriptSpec(script, task.settings.result_variable)

    def _foreign(self, task: model.Task, reason: str) -> Meaning:
        message = f"{reason}; a handler of the topic {_own_name(task)!r} must do the work"
        self.findings.add(SCRIPT_FORMAT.at(message, element_id=task.id, line=task.line))
        return Kind.WORK, self.work(task, _own_name(task))

    # -------------------------------------------------------------- people

    def _human(self, task: model.Task, lane: str | None) -> graph.Human:
        settings = task.settings
        self._check_fields(task)
        return graph.Human(
            assignee=self.texts.optional_template(settings.assignee, task),
            candidate_users=self.texts.optional_template(settings.candidate_users, task),
            candidate_groups=self.texts.optional_template(settings.candidate_groups, task),
            due=self.texts.due(settings.due_date, task),
            follow_up=self.texts.due(settings.follow_up_date, task),
            priority=self.texts.optional(settings.priority, task),
            form_key=settings.form_key,
            fields=settings.fields,
            guards=tuple(
                graph.Guard(self.texts.expression(g.condition, task), g.message) for g in settings.guards
            ),
            lane=lane,
        )

    def _check_fields(self, task: model.Task) -> None:
        seen: set[str] = set()
        for field in task.settings.fields:
            if field.name in seen:
                message = f"the form has two fields {field.name!r}"
                self.findings.add(FIELD_TWICE.at(message, element_id=task.id, line=task.line))
            seen.add(field.name)

    # -------------------------------------------------------------- settings

    def _retry(self, node: model.FlowNode) -> graph.Retry:
        retry = node.settings.retry
        if retry is None:
            return graph.Retry()
        if retry.attempts is not None and retry.attempts < 1:
            self.texts.refuse_setting(f"retry attempts: {retry.attempts} is less than 1", node)
        if retry.jitter is not None and not 0 <= retry.jitter <= 1:
            self.texts.refuse_setting(f"retry jitter: {retry.jitter} is not between 0 and 1", node)
        return graph.Retry(
            attempts=retry.attempts,
            kind=retry.kind,
            base=self.texts.duration_setting(retry.base, "retry base", node),
            max=self.texts.duration_setting(retry.max, "retry max", node),
            jitter=retry.jitter,
        )

    def _version(self, activity: model.CallActivity) -> Literal["latest", "deployment"] | int:
        match activity.settings.called_version:
            case None | "latest":
                return "latest"
            case "deployment":
                return "deployment"
            case asked if re.fullmatch(r"[1-9][0-9]{0,8}", asked):
                return int(asked)
            case asked:
                message = f"version: {asked!r} is not latest, deployment or a number"
                self.texts.refuse_setting(message, activity)
                return "latest"


def _own_name(task: model.Task) -> str:
    """The topic of a task that names none: its id in the file."""
    return task.id.partition("#")[0]
