# ruff: noqa: E501 - XML and hints read better unbroken
"""What a hint tells to write can be written: with it the problem is gone."""

from __future__ import annotations

import pytest

import bpm_engine.bpmn.constraints as constraints
from bpm_engine.bpmn.document import read_document
from bpm_engine.problems import Problem

HEAD = '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="urn:test">'
CAUGHT = '<intermediateCatchEvent id="paid"><messageEventDefinition{}/></intermediateCatchEvent>'
THROWN = '<intermediateThrowEvent id="pay"><messageEventDefinition{}/></intermediateThrowEvent>'
SENT = '<sendTask id="pay"{}/>'
IN_CATCH = "the messageEventDefinition of intermediateCatchEvent 'paid'"
IN_THROW = "the messageEventDefinition of intermediateThrowEvent 'pay'"


def chain(process: str, node: str, name: str) -> str:
    return (
        f'<process id="{process}" isExecutable="true"><startEvent id="{process}s"/>{node}<endEvent id="{process}e"/>'
        f'<sequenceFlow id="{process}1" sourceRef="{process}s" targetRef="{name}"/>'
        f'<sequenceFlow id="{process}2" sourceRef="{name}" targetRef="{process}e"/></process>'
    )


def pools(caught: str, thrown: str, flow: str, roots: str = "") -> str:
    return (
        f'{HEAD}{roots}<collaboration id="c"><participant id="a" processRef="p"/><participant id="b" processRef="q"/>'
        f'<messageFlow id="transfer" sourceRef="pay" targetRef="paid"{flow}/></collaboration>'
        f"{chain('p', caught, 'paid')}{chain('q', thrown, 'pay')}</definitions>"
    )


def checked(xml: str) -> list[Problem]:
    return list(constraints.check_document(read_document(xml.encode())))


def test_a_message_that_no_flow_brings_is_to_be_declared_and_referred_to() -> None:
    (found,) = checked(f"{HEAD}{chain('p', CAUGHT.format(''), 'paid')}</definitions>")
    assert (found.code, found.element_id) == ("MESSAGE_MISSING", "paid")
    assert found.hint == (
        'Add <message id="paid_message" name="paid"/> to <definitions>, and messageRef="paid_message" to '
        f"{IN_CATCH}."
    )


@pytest.mark.parametrize(
    ("thrown", "other"), [(THROWN, IN_THROW), (SENT, "sendTask 'pay'")], ids=["event", "task"]
)
def test_ends_that_only_a_message_flow_joins_are_told_the_message_that_both_need(
    thrown: str, other: str
) -> None:
    found = checked(pools(CAUGHT.format(""), thrown.format(""), ' name="Money &amp; more"'))
    problem = next(each for each in found if each.code == "MESSAGE_MISSING")
    declared, referred = (
        '<message id="transfer_message" name="Money &amp; more"/>',
        ' messageRef="transfer_message"',
    )
    assert problem.hint == (
        f"Add {declared} to <definitions>, and{referred} to {IN_CATCH} and to {other}: messageFlow 'transfer' "
        "documents that they belong together, and carries nothing."
    )
    repaired = pools(CAUGHT.format(referred), thrown.format(referred), "", roots=declared)
    assert checked(repaired) == []


def test_the_message_of_the_message_flow_is_the_one_to_refer_to() -> None:
    declared = '<message id="m" name="money"/>'
    found = checked(pools(CAUGHT.format(""), THROWN.format(""), ' messageRef="m"', declared))
    assert {each.code: each.hint for each in found} == {
        "MESSAGE_MISSING": f"Add messageRef=\"m\" to {IN_CATCH} and to {IN_THROW}: messageFlow 'transfer' documents "
        "that they belong together, and carries nothing.",
        "MESSAGE_NOT_NAMED": f"Add messageRef=\"m\" to {IN_THROW} and to {IN_CATCH}: messageFlow 'transfer' documents "
        "that they belong together, and carries nothing. Or give the event a handler by bpm:topic.",
    }


def test_an_end_that_has_its_message_gives_it_to_the_other() -> None:
    declared = '<message id="m" name="money"/>'
    (found,) = checked(pools(CAUGHT.format(""), THROWN.format(' messageRef="m"'), "", declared))
    assert found.hint == (
        f"Add messageRef=\"m\" to {IN_CATCH}: messageFlow 'transfer' documents that they belong together, and "
        "carries nothing."
    )
