from __future__ import annotations

import itertools

import pytest

from bpm_engine.core.lifecycle import (
    INSTANCE_MOVES,
    TERMINAL_INSTANCES,
    TERMINAL_TOKENS,
    TOKEN_MOVES,
    IllegalTransitionError,
    check_instance,
    check_token,
    render_states,
)
from bpm_engine.core.state import InstanceStatus, TokenState


def test_the_tables_are_total():
    assert set(TOKEN_MOVES) == set(TokenState)
    assert set(INSTANCE_MOVES) == set(InstanceStatus)


def test_completed_and_cancelled_are_final_and_nothing_else_is():
    assert {TokenState.COMPLETED, TokenState.CANCELLED} == TERMINAL_TOKENS
    assert {InstanceStatus.COMPLETED, InstanceStatus.CANCELLED} == TERMINAL_INSTANCES


@pytest.mark.parametrize(("before", "after"), list(itertools.product(TokenState, TokenState)))
def test_a_token_makes_the_moves_of_the_table_and_no_other(before, after):
    if after in TOKEN_MOVES[before]:
        check_token(before, after)
    else:
        with pytest.raises(IllegalTransitionError):
            check_token(before, after)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(InstanceStatus, InstanceStatus)))
def test_an_instance_makes_the_moves_of_the_table_and_no_other(before, after):
    if after in INSTANCE_MOVES[before]:
        check_instance(before, after)
    else:
        with pytest.raises(IllegalTransitionError):
            check_instance(before, after)


def test_every_live_state_can_be_cancelled():
    for state in set(TokenState) - TERMINAL_TOKENS:
        check_token(state, TokenState.CANCELLED)
    for status in set(InstanceStatus) - TERMINAL_INSTANCES:
        check_instance(status, InstanceStatus.CANCELLED)


def test_the_page_shows_every_move():
    page = render_states()
    for moves in (TOKEN_MOVES, INSTANCE_MOVES):
        for before, after in ((b, a) for b, afters in moves.items() for a in afters):
            assert f"    {before} --> {after}" in page
            assert f"| {before} | {after} |" in page
