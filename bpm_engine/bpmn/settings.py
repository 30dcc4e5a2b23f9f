"""Settings of the engine on an element: of the `bpm:` namespace, or of the dialect the file was written in.

`dialects` reads each of them into this one form, so that nothing behind it asks where a file comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.text import Text

EMPTY: Mapping[str, str] = FrozenDict()


@dataclass(frozen=True, slots=True)
class VariableMapping:
    """`<bpm:input name= value=>` or `<bpm:output …>`: evaluate `value`, store as `name`."""

    name: str
    value: Text


@dataclass(frozen=True, slots=True)
class RetrySettings:
    attempts: int | None = None
    kind: Literal["fixed", "linear", "exponential"] | None = None
    base: str | None = None
    max: str | None = None
    jitter: float | None = None


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    type: str = "string"  # string, number, integer, boolean, date, enum
    required: bool = False
    label: str = ""
    values: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    condition: Text
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Engine settings of one element, whichever dialect they came from. None: not set."""

    topic: str | None = None
    handler_source: str = ""  # which attribute gave the topic, for `bpm show`
    external: bool = False
    retry: RetrySettings | None = None
    lease: str | None = None
    priority: Text | None = None
    on_failure: Literal["fail", "suspend"] | None = None
    async_before: bool = False
    async_after: bool = False
    properties: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    inputs: tuple[VariableMapping, ...] = ()
    outputs: tuple[VariableMapping, ...] = ()
    emit: str | None = None
    compensate_topic: str | None = None
    saga: bool = False
    result_variable: str | None = None
    expression: Text | None = None  # camunda:expression, zeebe:script: evaluated by the engine itself
    assignee: Text | None = None
    candidate_users: Text | None = None
    candidate_groups: Text | None = None
    due_date: Text | None = None
    follow_up_date: Text | None = None
    form_key: str | None = None
    fields: tuple[FormField, ...] = ()
    guards: tuple[Guard, ...] = ()
    correlation_key: Text | None = None
    match: tuple[VariableMapping, ...] = ()
    payload_variable: str | None = None
    collection: Text | None = None
    element_variable: str | None = None
    output_collection: str | None = None
    output_element: Text | None = None
    called_version: str | None = None  # "latest" | "deployment" | a number
    called_version_tag: str | None = None
    inherit_business_key: bool = False
    business_key: Text | None = None
    pass_all_inputs: bool | None = None  # call activity; None: all when there is no mapping
    pass_all_outputs: bool | None = None
    activate: Text | None = None  # ad-hoc: "all", "none" or an expression that gives ids
    deadline: str | None = None
    version_tag: str | None = None
    retention: str | None = None
    catch_up: Literal["once", "all", "skip"] | None = None
    max_tokens: int | None = None
    error_code_variable: str | None = None  # receives the code of a caught error or escalation
    error_message_variable: str | None = None
    loop_counter_base: int = 0  # zeebe counts from 1


NO_SETTINGS = Settings()
