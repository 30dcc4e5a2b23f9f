"""Readers of extension elements that several dialects write in the same way.

Camunda 7, Flowable and Activiti share their ancestors: variable mappings, form fields, injected
fields and properties have the same shape in all of them.
"""

from __future__ import annotations

import json

from lxml import etree

from bpm_engine.bpmn.dialects.draft import Draft
from bpm_engine.bpmn.dialects.readers import expression_body, is_expression, is_variable_name, parse_flag
from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.settings import FormField, VariableMapping
from bpm_engine.bpmn.text import TEMPLATE

_FIELD_TYPES = {
    "": "string",
    "string": "string",
    "text": "string",
    "long": "integer",
    "integer": "integer",
    "int": "integer",
    "short": "integer",
    "double": "number",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "enum": "enum",
}


def local(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2]


def children(element: etree._Element, name: str) -> list[etree._Element]:
    return [child for child in element.iterchildren("*") if local(child) == name]


def value_of(element: etree._Element, attribute: str) -> str:
    return (element.get(attribute) or "").strip()


# ------------------------------------------------------------------ properties and injected fields


def properties(draft: Draft, element: etree._Element) -> None:
    for entry in element.iterchildren("*"):
        name = value_of(entry, "name") or value_of(entry, "key") or value_of(entry, "id")
        if name:
            draft.add_property(name, entry.get("value") or "")


def injected_field(draft: Draft, element: etree._Element) -> None:
    """`<field name= stringValue=>` is static; with an expression it is an input."""
    name = value_of(element, "name")
    if not name:
        return
    inner = {local(child): text_of(child).strip() for child in element.iterchildren("*")}
    expression = value_of(element, "expression") or inner.get("expression", "")
    if expression:
        draft.add("inputs", VariableMapping(name, draft.text(expression, TEMPLATE)))
    else:
        draft.add_property(name, element.get("stringValue") or inner.get("string", ""))


# ------------------------------------------------------------------ in and out of call activities and signals

# How the caller's own business key is written; modellers fill it in.
_OWN_BUSINESS_KEY = frozenset(
    {
        "execution.processBusinessKey",
        "execution.businessKey",
        "execution.getProcessBusinessKey()",
        "execution.processInstanceBusinessKey",
    }
)


def pass_only_what_is_mapped(draft: Draft) -> None:
    """A call activity of these engines hands over what it says and nothing else, in both directions."""
    draft.imply("pass_all_inputs", False)
    draft.imply("pass_all_outputs", False)


def parameter_in(draft: Draft, element: etree._Element) -> None:
    pass_only_what_is_mapped(draft)
    key = value_of(element, "businessKey")
    if expression_body(key) in _OWN_BUSINESS_KEY:
        draft.put("inherit_business_key", True)
    elif key:
        draft.put("business_key", draft.text(key, TEMPLATE))
    elif value_of(element, "variables") == "all":
        draft.put("pass_all_inputs", True)
    else:
        _parameter(draft, element, "inputs")


def parameter_out(draft: Draft, element: etree._Element) -> None:
    pass_only_what_is_mapped(draft)
    if value_of(element, "variables") == "all":
        draft.put("pass_all_outputs", True)
    else:
        _parameter(draft, element, "outputs")
    if draft.values.get("pass_all_outputs") and draft.values.get("outputs"):
        draft.differs("where single variables are handed back, the others are not")


def _parameter(draft: Draft, element: etree._Element, setting: str) -> None:
    source, expression = value_of(element, "source"), value_of(element, "sourceExpression")
    target = value_of(element, "target")
    if not target or not (source or expression):
        draft.ignored("a source and a target variable are needed")
        return
    if expression:
        value = draft.text(expression, TEMPLATE)
    else:
        value = draft.text(source)
        if not is_variable_name(source):
            draft.differs(f"the source {source!r} is read as an expression, not as a variable's name")
    draft.add(setting, VariableMapping(target, value))


# ------------------------------------------------------------------ <inputOutput>


def input_output(draft: Draft, element: etree._Element) -> None:
    if local(draft.owner) == "callActivity":
        draft.differs("on a call activity these are handed to the called process and back from it")
    for parameter in element.iterchildren("*"):
        setting = {"inputParameter": "inputs", "outputParameter": "outputs"}.get(local(parameter))
        name = value_of(parameter, "name")
        if setting and name:
            draft.line = draft.document.line_of(parameter)
            _input_output_parameter(draft, parameter, setting, name)


def _input_output_parameter(draft: Draft, parameter: etree._Element, setting: str, name: str) -> None:
    inner = next(parameter.iterchildren("*"), None)
    if inner is None:
        draft.add(
            setting, VariableMapping(name, draft.text(text_of(parameter).strip() or "${null}", TEMPLATE))
        )
        return
    if any(local(descendant) == "script" for descendant in parameter.iterdescendants("*")):
        draft.not_run(f"the script that computes {name!r} does not run; {name!r} is not mapped")
        return
    draft.add(setting, VariableMapping(name, draft.text("${" + _juel(inner) + "}", "juel")))


def _juel(element: etree._Element) -> str:
    """A list, map or value as one JUEL literal. Its depth is bounded by that of the document."""
    match local(element):
        case "list":
            return "[" + ", ".join(_juel(item) for item in element.iterchildren("*")) + "]"
        case "map":
            return "{" + ", ".join(_entry(entry) for entry in element.iterchildren("*")) + "}"
        case _:
            return _juel_text(text_of(element).strip())


def _entry(entry: etree._Element) -> str:
    inner = next(entry.iterchildren("*"), None)
    value = _juel_text(text_of(entry).strip()) if inner is None else _juel(inner)
    return f"{json.dumps(value_of(entry, 'key'), ensure_ascii=False)}: {value}"


def _juel_text(text: str) -> str:
    body = expression_body(text)
    return body if body is not None else json.dumps(text, ensure_ascii=False)


# ------------------------------------------------------------------ forms


def form_data(draft: Draft, element: etree._Element) -> None:
    for field in children(element, "formField"):
        draft.line = draft.document.line_of(field)
        constraints = {
            value_of(constraint, "name"): value_of(constraint, "config")
            for validation in children(field, "validation")
            for constraint in children(validation, "constraint")
        }
        required = constraints.pop("required", "false") != "false"
        if constraints:
            names = ", ".join(sorted(constraints))
            draft.ignored(f"of the validation of {value_of(field, 'id')!r} these are not checked: {names}")
        _form_field(draft, field, label=field.get("label") or "", default="defaultValue", required=required)


def form_property(draft: Draft, element: etree._Element) -> None:
    required = parse_flag(element.get("required") or "") or False
    if value_of(element, "variable") not in ("", value_of(element, "id")):
        draft.differs(f"the value is stored as {value_of(element, 'id')!r}, the name of the field")
    _form_field(draft, element, label=element.get("name") or "", default="default", required=required)


def _form_field(draft: Draft, element: etree._Element, *, label: str, default: str, required: bool) -> None:
    name, kind = value_of(element, "id"), value_of(element, "type").lower()
    if not name:
        draft.ignored("a form field without id")
        return
    if kind not in _FIELD_TYPES:
        draft.differs(f"the type {kind!r} of field {name!r} is not known; it is read as string")
    initial = element.get(default)
    if initial is not None and is_expression(initial.strip()):
        draft.ignored(f"the default of field {name!r} is an expression")
        initial = None
    values = tuple(value_of(value, "id") for value in children(element, "value"))
    draft.add("fields", FormField(name, _FIELD_TYPES.get(kind, "string"), required, label, values, initial))
