"""Data for `templates`: what an activity or event reads and writes through data associations.

An activity reads what a script before it has written, so that it need not wait; a data store is read and
written by steps of their own. Everything that is written is read again in the scenarios of
`tests/semantics/data`; here each kind of data meets each surrounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from support.scenarios.subjects import MESSAGE, Step, Subject, flow

_MESSAGE = '<messageEventDefinition messageRef="message_go"/>'


@dataclass(frozen=True, slots=True)
class Item:
    """A kind of data: its declaration, the id that associations name, and a script that fills it."""

    name: str
    declared: str
    id: str
    fill: str = ""
    is_property: bool = False


ITEMS = (
    Item("data_object", '<dataObject id="d" name="d"/>', "d", "d = 1"),
    Item(
        "data_state",
        '<dataObject id="d" name="d"/><dataObjectReference id="r" name="d" dataObjectRef="d">'
        '<dataState id="ready" name="ready"/></dataObjectReference>',
        "r",
        'd = 1\nd_state = "ready"',
    ),
    Item("data_store", '<dataStoreReference id="s" name="s"/>', "s"),
    Item("property", '<property id="p" name="p"/>', "p", "p = 1", is_property=True),
)


def _specification(inputs: str, outputs: str) -> str:
    data = "".join(f'<data{kind} id="{name}" name="{name}"/>' for kind, name in _named(inputs, outputs))
    return f"<ioSpecification>{data}{_set('input', inputs)}{_set('output', outputs)}</ioSpecification>"


def _named(inputs: str, outputs: str) -> list[tuple[str, str]]:
    return [*(("Input", name) for name in inputs.split()), *(("Output", name) for name in outputs.split())]


def _set(kind: str, names: str, optional: str = "") -> str:
    word = kind.capitalize()
    refs = "".join(f"<data{word}Refs>{name}</data{word}Refs>" for name in names.split())
    refs += "".join(f"<optional{word}Refs>{name}</optional{word}Refs>" for name in optional.split())
    return f"<{kind}Set>{refs}</{kind}Set>"


def _association(kind: str, source: str, target: str, more: str = "") -> str:
    return (
        f"<data{kind}Association><sourceRef>{source}</sourceRef><targetRef>{target}</targetRef>{more}"
        f"</data{kind}Association>"
    )


def _filled(item: Item, xml: str, subject: Subject) -> Subject:
    """Behind a script that gives the item its value; a store needs none."""
    if not item.fill:
        before = f"{subject.before_rest} x#read_s".strip()
        return replace(
            subject,
            xml=f"{item.declared}{xml}",
            path=f"x#read_s {subject.path}",
            before_rest=before if subject.rests else "",
            before_fail="x#read_s",
            until_rest=("run",) if subject.rests else (),
            drive=("run", *subject.drive),
            handlers={"x#read_s": {"result": {"value": 1}}},
        )
    script = f'<scriptTask id="fill"><script>{item.fill}</script></scriptTask>{flow("fill", "x")}'
    return replace(
        subject,
        xml=f"{'' if item.is_property else item.declared}{script}{xml}",
        first="fill",
        path=f"fill {subject.path}",
        before_rest="fill" if subject.rests else "",
        before_fail="fill",
    )


def _written(item: Item, subject: Subject) -> Subject:
    if item.fill:
        return replace(subject, xml=f"{'' if item.is_property else item.declared}{subject.xml}")
    return replace(
        subject,
        xml=f"{item.declared}{subject.xml}",
        path=f"{subject.path} x#write_s",
        drive=(*subject.drive, "run"),
    )


def _in_owner(item: Item, subject: Subject) -> Subject:
    """A property needs a scope of its own to belong to."""
    if not item.is_property:
        return subject
    inner = (
        f'<startEvent id="own_start"/>{flow("own_start", subject.first)}{subject.xml}'
        f'<endEvent id="own_end"/>{flow("x", "own_end")}'
    )
    rests = f"own {subject.rests}" if subject.rests else ""
    before = f"own_start {subject.before_rest}"
    return replace(
        subject,
        xml=f'<subProcess id="own">{item.declared}{inner}</subProcess>',
        first="own",
        last="own",
        path=f"own_start {subject.path} own_end own",
        rests=rests,
        before_rest=before if rests else "",
        before_fail=f"own_start {subject.before_fail}",
        around="own",
    )


def _read_by_activity(item: Item) -> Subject:
    io = _specification("given", "") + _association("Input", item.id, "given")
    task = Subject(f"{item.name}_activity_input", "", rests="x", drive=({"complete": "x"},), extensible=True)
    return _in_owner(item, _filled(item, f'<userTask id="x"><!-- -->{io}</userTask>', task))


def _written_by_activity(item: Item) -> Subject:
    io = _specification("", "made") + _association("Output", "made", item.id)
    made: Step = {"complete": "x", "variables": {"made": 1}}
    task = Subject(
        f"{item.name}_activity_output",
        f'<userTask id="x"><!-- -->{io}</userTask>',
        rests="x",
        drive=(made,),
        extensible=True,
    )
    return _in_owner(item, _written(item, task))


def _read_by_event(item: Item) -> Subject:
    data = (
        f'<dataInput id="told" name="told"/>{_association("Input", item.id, "told")}{_set("input", "told")}'
    )
    event = f'<intermediateThrowEvent id="x"><!-- -->{data}{_MESSAGE}</intermediateThrowEvent>'
    throw = Subject(f"{item.name}_throw_input", "", drive=(), roots=MESSAGE, extensible=True)
    return _in_owner(item, _filled(item, event, throw))


def _written_by_event(item: Item) -> Subject:
    data = (
        f'<dataOutput id="heard" name="heard"/>{_association("Output", "heard", item.id)}'
        f"{_set('output', 'heard')}"
    )
    event = f'<intermediateCatchEvent id="x"><!-- -->{data}{_MESSAGE}</intermediateCatchEvent>'
    catch = Subject(
        f"{item.name}_catch_output",
        event,
        rests="x",
        drive=({"message": "go", "payload": {"n": 1}},),
        roots=MESSAGE,
        extensible=True,
    )
    return _in_owner(item, _written(item, catch))


# ------------------------------------------------------------------ associations and sets

_WAYS = {
    "transformation": "<transformation>{source} + 1</transformation>",
    "assignment": "<assignment><from>{source} + 1</from><to>{target}</to></assignment>",
}


def _worked_out(way: str) -> list[Subject]:
    item = ITEMS[0]
    read = _WAYS[way].format(source="d", target="given")
    io = _specification("given", "") + _association("Input", "d", "given", read)
    reader = Subject(f"{way}_activity_input", "", rests="x", drive=({"complete": "x"},), extensible=True)
    write = _WAYS[way].format(source="made", target="d")
    out = _specification("", "made") + _association("Output", "made", "d", write)
    writer = Subject(
        f"{way}_activity_output",
        f'<userTask id="x"><!-- -->{out}</userTask>',
        rests="x",
        drive=({"complete": "x", "variables": {"made": 1}},),
        extensible=True,
    )
    return [_filled(item, f'<userTask id="x"><!-- -->{io}</userTask>', reader), _written(item, writer)]


def _optional() -> Subject:
    """Nothing is there, nothing is needed, nothing is handed on."""
    io = (
        '<ioSpecification><dataInput id="given" name="given"/><dataOutput id="made" name="made"/>'
        f"{_set('input', 'given', 'given')}{_set('output', 'made', 'made')}</ioSpecification>"
        f"{_association('Input', 'd', 'given')}{_association('Output', 'made', 'd')}"
    )
    return Subject(
        "optional_data",
        f'<dataObject id="d" name="d"/><userTask id="x"><!-- -->{io}</userTask>',
        rests="x",
        drive=({"complete": "x"},),
        extensible=True,
    )


DATA_SUBJECTS: list[Subject] = [
    *(_read_by_activity(item) for item in ITEMS),
    *(_written_by_activity(item) for item in ITEMS),
    *(_read_by_event(item) for item in ITEMS),
    *(_written_by_event(item) for item in ITEMS),
    *(subject for way in _WAYS for subject in _worked_out(way)),
    _optional(),
]
