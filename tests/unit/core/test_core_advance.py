"""What `advance` promises as a function: pure, deterministic, batching invisible, faults attributable."""

from __future__ import annotations

import copy
import itertools

import pytest
from msgspec.structs import replace
from support.definitions import bpmn, path
from support.player import START, Player

from bpm_engine.core import stimuli as s
from bpm_engine.core.advance import ANSWERS, AdvanceError, advance
from bpm_engine.core.behaviours import ENTER, RESUME, render_kinds
from bpm_engine.core.changes import Applied, Changes, Refused, Stale
from bpm_engine.core.context import Context, Limits
from bpm_engine.core.loading import named
from bpm_engine.core.needs import Needs, union
from bpm_engine.core.performing import PERFORM
from bpm_engine.core.snapshot import Snapshot, apply
from bpm_engine.core.state import TokenState

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
FORK = bpmn(
    ENDS
    + '<parallelGateway id="f"/><parallelGateway id="j"/><serviceTask id="a"/><serviceTask id="b"/>'
    + '<serviceTask id="c"/><boundaryEvent id="t" attachedToRef="a" cancelActivity="false">'
    + "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>"
    + '<endEvent id="te"/>'
    + path("s", "f", "a", "j", "c", "e")
    + path("f", "b", "j")
    + path("t", "te")
)


def world() -> tuple[Player, list[s.Stimulus]]:
    """A fork with both branches claimed, and what may happen to it."""
    player = Player(FORK)
    player.start({"x": 1})
    a, b = player.claim_at("a"), player.claim_at("b")
    return player, [
        s.WorkCompleted(claim=a, variables={"x": 2}),
        s.WorkCompleted(claim=b, variables={"y": 3}),
        s.WorkCompleted(claim=a, variables={"late": True}),
        s.WorkFailed(claim=b, failure=s.Failure(code="BOOM", message="")),
        s.ErrorThrown(claim=b, code="X"),
        s.TimerFired(timer_id=next(iter(player.world.timers))),
        s.LeaseExpired(token_id=b.token_id, version=b.version),
        s.VariablesSet(instance_id=player.root, variables={"z": 1}),
        s.SuspendRequested(instance_id=player.root),
        s.CancelRequested(instance_id=player.root),
        s.TokensMoved(instance_id=player.root, from_node="a", to_node="c"),
    ]


def context() -> Context:
    numbers = itertools.count()
    return Context(now=START.replace(hour=2), new_id=lambda: f"n{next(numbers)}")


def changes_of(player: Player, snapshot: Snapshot, stimuli: list[s.Stimulus], given: Context) -> Changes:
    changes = advance(player.definitions, snapshot, stimuli, given)
    assert isinstance(changes, Changes)
    return changes


def versionless(snapshot: Snapshot) -> dict[str, object]:
    """A token's version says how many commits touched it, which is what batching saves."""
    return {
        "instances": snapshot.instances,
        "scopes": snapshot.scopes,
        "tokens": {key: replace(token, version=0) for key, token in snapshot.tokens.items()},
        "joins": snapshot.joins,
        "timers": {k: t for k, t in snapshot.timers.items() if t.status == "Scheduled"},
        "tasks": snapshot.tasks,
    }


@pytest.mark.parametrize("pair", list(itertools.permutations(range(11), 2)))
def test_batching_is_invisible(pair):
    player, facts = world()
    first, second = (facts[number] for number in pair)
    whole = player.world.whole()
    together = changes_of(player, whole, [first, second], given := context())
    given = context()
    one = changes_of(player, whole, [first], given)
    two = changes_of(player, apply(whole, one), [second], given)
    assert versionless(apply(whole, together)) == versionless(apply(apply(whole, one), two))
    assert together.outcomes == one.outcomes + two.outcomes
    assert together.log == one.log + two.log
    assert together.outbox == one.outbox + two.outbox


def test_the_same_arguments_give_the_same_changes_and_nothing_else_changes():
    for number in range(11):
        player, facts = world()
        whole = player.world.whole()
        before = copy.deepcopy(versionless(whole))
        assert changes_of(player, whole, [facts[number]], context()) == changes_of(
            player, whole, [facts[number]], context()
        )
        assert versionless(whole) == before


def test_a_refused_stimulus_takes_back_only_its_own_part_of_the_batch():
    player, facts = world()
    full = Context(now=START, new_id=context().new_id, limits=Limits(tokens=2))
    one_too_many = s.TokensMoved(instance_id=player.root, from_node=None, to_node="c")
    changes = changes_of(player, player.world.whole(), [facts[7], one_too_many], full)
    assert changes.outcomes == [
        Applied(),
        Refused("TOO_MANY_TOKENS", "the instance already has 2 tokens"),
    ]
    assert changes.patches == {player.root: {"z": 1}}
    assert [entry.kind for entry in changes.log] == ["variables"]


def test_a_start_that_is_refused_half_way_leaves_nothing():
    """Not even the counters of an instance that never was."""
    player, facts = world()
    full = Context(now=START, new_id=context().new_id, limits=Limits(tokens=0))
    start = s.Started(instance_id="new", tenant_id="t", definition_id="p:1")
    changes = changes_of(player, player.world.whole(), [start, facts[7], start], full)
    refused = Refused("TOO_MANY_TOKENS", "the instance already has 0 tokens")
    assert changes.outcomes == [refused, Applied(), refused]
    assert not changes.instances
    assert not changes.tokens
    assert [scope.id for scope in changes.scopes.updated] == [player.root]
    assert not changes.scopes.inserted
    assert [entry.kind for entry in changes.log] == ["variables"]


@pytest.mark.parametrize("number", [0, 1, 5, 6])
def test_a_repeated_stimulus_changes_nothing(number):
    player, facts = world()
    player.now = START.replace(hour=2)
    assert isinstance(player.play(facts[number])[0], Applied)
    before = copy.deepcopy(versionless(player.world.whole()))
    assert isinstance(player.play(facts[number])[0], Stale)
    assert versionless(player.world.whole()) == before


def test_a_token_is_raised_by_exactly_one_version_per_advance():
    player, facts = world()
    whole = player.world.whole()
    changes = changes_of(player, whole, [facts[0], facts[1]], context())
    assert changes.tokens.updated
    for token in changes.tokens.updated:
        assert token.version == whole.tokens[token.id].version + 1


def test_only_written_keys_are_in_the_patch():
    player, facts = world()
    changes = changes_of(player, player.world.whole(), [facts[0]], context())
    assert changes.patches == {player.root: {"x": 2}}


def test_what_is_missing_is_named_for_all_stimuli_at_once():
    player, facts = world()
    needs = advance(player.definitions, Snapshot(), [facts[0], facts[5], facts[9]], context())
    assert needs == named([facts[0], facts[5], s.VariablesSet(instance_id=player.root, variables={})])


def test_a_row_that_does_not_exist_is_answered_and_not_asked_for_again():
    player, _ = world()
    claim = s.Claim(token_id="nobody", version=1, owner="w")
    changes = advance(
        player.definitions, Snapshot(absent={"nobody"}), [s.WorkCompleted(claim=claim)], context()
    )
    assert isinstance(changes, Changes)
    assert isinstance(changes.outcomes[0], Stale)


def test_an_unexpected_exception_names_its_stimulus():
    player, facts = world()
    broken = player.world.whole()
    token_id = facts[1].claim.token_id
    broken.tokens = {**broken.tokens, token_id: replace(broken.tokens[token_id], node_id="nowhere")}
    with pytest.raises(AdvanceError) as caught:
        advance(player.definitions, broken, [facts[0], facts[1]], context())
    assert caught.value.index == 1


def test_needs_unite():
    one, two = Needs(tokens=frozenset("a")), Needs(tokens=frozenset("b"), waits=frozenset("c"))
    assert one | two == union([one, two]) == Needs(tokens=frozenset("ab"), waits=frozenset("c"))
    assert not Needs()
    assert one


def test_every_stimulus_and_every_effect_has_its_answer():
    from bpm_engine.core import effects

    assert set(ANSWERS) == set(s.Stimulus.__args__)
    performed = {e for e in effects.Effect.__subclasses__() if e is not effects.Awaited}
    assert set(PERFORM) == performed


def test_every_kind_that_rests_can_be_resumed_and_every_kind_is_in_the_page():
    page = render_kinds()
    assert set(RESUME) <= set(ENTER)
    for kind, behaviour in ENTER.items():
        assert f"| `{kind}` |" in page
        assert behaviour.__doc__


def test_the_history_has_one_row_for_what_is_passed_and_two_for_where_a_token_rests():
    player = Player(FORK)
    player.start()
    player.run()
    kinds: dict[str, list[str]] = {}
    for entry in player.log:
        if entry.node_id:
            kinds.setdefault(entry.node_id, []).append(entry.kind)
    assert kinds["f"] == ["completed"]
    assert kinds["a"] == ["entered", "completed"]
    assert kinds["j"] == ["completed"]
    assert [token.state for token in player.world.tokens.values() if token.state is TokenState.READY] == []
