"""What events say, apart from where they stand: event definitions become event specs.

Names. A message or signal is known by its name; where the file gives none, the id of the message, else
the id of the event stands in, with a warning. An error or escalation is known by its code. A catch
without a reference, or with one to an error without a code, catches every code, as Camunda reads it;
a throw of an error without a code throws the error's name or id. What a throw throws may be computed, as
Camunda 8 does; what a catch waits for is known when the file is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpm_engine.bpmn import model
from bpm_engine.bpmn.compiling.correlation import Correlation
from bpm_engine.bpmn.compiling.data import variable_name
from bpm_engine.bpmn.compiling.texts import Texts, looks_like_expression
from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TerminateEvent,
    TimerEvent,
)
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.settings import NO_SETTINGS, Settings
from bpm_engine.bpmn.text import Text
from bpm_engine.problems import Findings, error, warning

MESSAGE_UNNAMED = warning(
    "MESSAGE_UNNAMED",
    "A message is known by its name (10.5.6); without one, an id stands in for it.",
    'Add <message id="…" name="…"/> to <definitions> and refer to it by messageRef, at all its ends.',
)
SIGNAL_UNNAMED = warning(
    "SIGNAL_UNNAMED",
    "A signal is known by its name (10.5.6); without one, an id stands in for it.",
    "Refer to a signal, and give it a name.",
)
TIMER_WITHOUT_TIME = error(
    "TIMER_WITHOUT_TIME",
    "A timer has a date, a duration or a cycle (10.5.6).",
    "Add a timeDate, timeDuration or timeCycle.",
)
CONDITION_EVENT_EMPTY = error(
    "CONDITION_EVENT_EMPTY", "A conditional event has a condition (10.5.6).", "Write the condition."
)
CAUGHT_CODE_COMPUTED = error(
    "CAUGHT_CODE_COMPUTED",
    "What a catching event waits for is a fixed code; only what is thrown may be computed.",
    "Write the code, or refer to no error or escalation to catch them all.",
)


@dataclass(frozen=True, slots=True)
class Events:
    """Compiles the event definitions of one process."""

    process: model.Process
    definitions: model.Definitions
    texts: Texts
    findings: Findings

    def specs(self, event: model.Event, *, throws: bool) -> tuple[EventSpec, ...]:
        """The event's triggers or results; links are flows and compensation boundaries are handlers."""
        return tuple(
            spec
            for definition in event.definitions
            if (spec := self.spec(definition, event, event.settings, throws=throws)) is not None
        )

    def spec(
        self,
        definition: model.EventDefinition,
        owner: model.Element,
        settings: Settings = NO_SETTINGS,
        *,
        throws: bool,
    ) -> EventSpec | None:
        match definition:
            case model.MessageDefinition(message=None, expression=None) if throws:
                self._report_unnamed(owner, "the event names no message and sends nothing")
                return None
            case model.MessageDefinition():
                return self.message(
                    definition.message,
                    owner,
                    settings,
                    payload=_payload_output(owner),
                    computed=definition.expression,
                )
            case model.TimerDefinition():
                return self._timer(definition, owner, settings)
            case model.SignalDefinition():
                return SignalEvent(self._signal_name(definition, owner))
            case model.ErrorDefinition():
                return self._error(definition, owner, settings, throws)
            case model.EscalationDefinition():
                return self._escalation(definition, owner, settings, throws)
            case model.ConditionalDefinition():
                return self._condition(definition, owner)
            case model.CompensateDefinition():
                return CompensationEvent(definition.activity, definition.wait_for_completion)
            case model.TerminateDefinition():
                return TerminateEvent()
            case model.CancelDefinition():
                return CancelEvent()
            case _:
                return None

    # -------------------------------------------------------------- messages and signals

    def message(
        self,
        reference: str | None,
        owner: model.Element,
        settings: Settings,
        *,
        payload: str | None = None,
        computed: Text | None = None,
    ) -> MessageEvent:
        message = self.definitions.messages.get(reference or "")
        key = settings.correlation_key or (message.correlation_key if message else None)
        matched = tuple((m.name, self.texts.expression(m.value, owner)) for m in settings.match)
        correlation = Correlation(self.process, self.definitions, self.texts, self.findings)
        return MessageEvent(
            name=self._message_name(message, reference or computed, owner),
            correlation_key=self.texts.optional(key, owner),
            match=matched + (tuple(correlation.bound(message, owner)) if message else ()),
            payload_variable=settings.payload_variable
            or payload
            or (message.payload_variable if message else None),
            keys=tuple(correlation.keys(message)) if message else (),
        )

    def _message_name(
        self, message: model.Message | None, reference: str | Text | None, owner: model.Element
    ) -> Expression:
        if message and message.name.strip():
            return self.texts.template(Text(message.name.strip(), line=message.line), message)
        if isinstance(reference, Text):
            return self.texts.template(reference, owner)
        stand_in = reference or owner.id
        self._report_unnamed(owner, f"the message has no name; {stand_in!r} stands in")
        return self.texts.template(stand_in, owner)

    def _report_unnamed(self, owner: model.Element, message: str) -> None:
        self.findings.add(MESSAGE_UNNAMED.at(message, element_id=owner.id, line=owner.line))

    def _signal_name(self, definition: model.SignalDefinition, owner: model.Element) -> Expression:
        signal = self.definitions.signals.get(definition.signal or "")
        if signal and signal.name.strip():
            return self.texts.template(Text(signal.name.strip(), line=signal.line), signal)
        if definition.expression and signal is None:
            return self.texts.template(definition.expression, owner)
        stand_in = definition.signal or owner.id
        self.findings.add(
            SIGNAL_UNNAMED.at(
                f"the signal has no name; {stand_in!r} stands in", element_id=owner.id, line=owner.line
            )
        )
        return self.texts.template(stand_in, owner)

    # -------------------------------------------------------------- timers and conditions

    def _timer(
        self, definition: model.TimerDefinition, owner: model.Element, settings: Settings
    ) -> TimerEvent | None:
        if definition.kind == "none" or definition.text is None:
            self.findings.add(
                TIMER_WITHOUT_TIME.at("the timer has no time", element_id=owner.id, line=owner.line)
            )
            return None
        return TimerEvent(
            kind=definition.kind,
            expression=self.texts.time(definition.text, definition.kind, owner),
            catch_up=settings.catch_up or self.process.settings.catch_up or "once",
        )

    def _condition(
        self, definition: model.ConditionalDefinition, owner: model.Element
    ) -> ConditionEvent | None:
        if definition.condition is None or not definition.condition.source.strip():
            self.findings.add(
                CONDITION_EVENT_EMPTY.at("the condition is empty", element_id=owner.id, line=owner.line)
            )
            return None
        return ConditionEvent(self.texts.expression(definition.condition, owner))

    # -------------------------------------------------------------- errors and escalations

    def _error(
        self,
        definition: model.ErrorDefinition,
        owner: model.Element,
        settings: Settings,
        throws: bool,
    ) -> ErrorEvent:
        declared = self.definitions.errors.get(definition.error or "")
        code = (declared.code or "").strip() or None if declared else definition.error
        if throws and code is None and declared:
            code = declared.name or declared.id
        code, computed = self._code(code, owner, throws)
        return ErrorEvent(
            code=code,
            code_variable=settings.error_code_variable,
            message_variable=settings.error_message_variable,
            message=self.texts.optional_template(declared.message, declared) if throws and declared else None,
            computed=computed,
        )

    def _escalation(
        self,
        definition: model.EscalationDefinition,
        owner: model.Element,
        settings: Settings,
        throws: bool,
    ) -> EscalationEvent:
        declared = self.definitions.escalations.get(definition.escalation or "")
        code = (declared.code or "").strip() or None if declared else definition.escalation
        if throws and code is None and declared:
            code = declared.name or declared.id
        code, computed = self._code(code, owner, throws)
        return EscalationEvent(code, settings.error_code_variable, computed)

    def _code(
        self, code: str | None, owner: model.Element, throws: bool
    ) -> tuple[str | None, Expression | None]:
        """The code, or the expression that gives it when it is thrown."""
        if code is None or not looks_like_expression(code):
            return code, None
        compiled = self.texts.template(code, owner)
        if not compiled.is_constant and not throws:
            message = f"the event waits for the code {code!r}, which is an expression"
            self.findings.add(CAUGHT_CODE_COMPUTED.at(message, element_id=owner.id, line=owner.line))
        value = compiled.evaluate({}) if compiled.is_constant else None
        return (value, None) if isinstance(value, str) else (None, compiled)


def _payload_output(owner: model.Element) -> str | None:
    """What came goes into the event's data output, where an association carries it on (10.5.1)."""
    if not isinstance(owner, model.Event):
        return None
    carried = {source for association in owner.data_associations for source in association.sources}
    outputs = [item for item in owner.data_items if item.kind == "output" and item.id in carried]
    return variable_name(outputs[0]) if len(outputs) == 1 else None
