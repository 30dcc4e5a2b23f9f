"""What the soundness check says of processes as people draw them: proved, refuted with a trace, undecided."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, flow

from bpm_engine.bpmn import load
from bpm_engine.bpmn.soundness import Budget, Verdict, verify
from bpm_engine.problems import Problem


def flows(words: str, prefix: str = "f") -> str:
    """Words like a>b, or a>b? for a flow with a condition."""
    lines = []
    for index, word in enumerate(words.split()):
        source, _, target = word.rstrip("?").partition(">")
        lines.append(
            flow(source, target, f"x &gt; {index}" if word.endswith("?") else "", f"{prefix}{index}")
        )
    return "".join(lines)


def process(elements: str, words: str) -> bytes:
    return bpmn(elements + flows(words), roots='<message id="m" name="m"/>')


def nodes(**kinds: str) -> str:
    return "".join(f'<{tag} id="{name}"/>' for name, tag in kinds.items())


XOR, AND, OR, TASK = "exclusiveGateway", "parallelGateway", "inclusiveGateway", "task"
START, END = "startEvent", "endEvent"


def soundness(xml: bytes, budget: Budget | None = None) -> tuple[Verdict, list[Problem]]:
    loaded = load(xml, soundness=False)
    assert not loaded.errors, loaded.errors
    verdicts = verify(loaded.graphs[0], budget)
    return verdicts[0].verdict, [p for v in verdicts for p in v.problems]


def test_a_choice_joined_in_parallel_deadlocks_and_the_trace_leads_to_the_join() -> None:
    xml = process(
        nodes(s=START, split=XOR, a=TASK, b=TASK, join=AND, e=END),
        "s>split split>a? split>b a>join b>join join>e",
    )
    verdict, (problem,) = soundness(xml)
    assert verdict is Verdict.REFUTED
    assert problem.code == "CAN_DEADLOCK"
    assert problem.element_id == "join"
    assert problem.trace in (("s", "split", "a", "join"), ("s", "split", "b", "join"))


def test_a_parallel_split_merged_exclusively_runs_what_follows_twice_which_is_legal() -> None:
    xml = process(
        nodes(s=START, split=AND, a=TASK, b=TASK, merge=XOR, c=TASK, e=END),
        "s>split split>a split>b a>merge b>merge merge>c c>e",
    )
    assert soundness(xml) == (Verdict.PROVED, [])


@pytest.mark.parametrize("gateway", [XOR, AND, OR])
def test_matching_pairs_are_proved(gateway: str) -> None:
    conditional = "" if gateway == AND else "?"
    xml = process(
        nodes(s=START, split=gateway, a=TASK, b=TASK, join=gateway, e=END),
        f"s>split split>a{conditional} split>b{conditional} a>join b>join join>e",
    )
    assert soundness(xml) == (Verdict.PROVED, [])


def test_an_inclusive_join_waits_for_whatever_an_inclusive_split_chose_in_unstructured_graphs() -> None:
    xml = process(
        nodes(s=START, split=OR, a=TASK, b=TASK, c=XOR, join=OR, e=END, e2=END),
        "s>split split>a? split>b? a>join b>c c>join? c>e2 join>e",
    )
    assert soundness(xml) == (Verdict.PROVED, [])


def test_a_fork_inside_a_loop_without_a_join_multiplies_tokens() -> None:
    xml = process(
        nodes(s=START, merge=XOR, fork=AND, a=TASK, choice=XOR, e=END),
        "s>merge merge>fork fork>a fork>merge a>choice choice>merge? choice>e",
    )
    verdict, problems = soundness(xml)
    assert verdict is Verdict.REFUTED
    assert [p.code for p in problems] == ["UNBOUNDED_TOKENS"]


def test_a_loop_that_sends_a_notice_each_round_is_sound() -> None:
    xml = process(
        nodes(s=START, merge=XOR, fork=AND, notice=TASK, done=END, choice=XOR, e=END),
        "s>merge merge>fork fork>notice notice>done fork>choice choice>merge? choice>e",
    )
    assert soundness(xml) == (Verdict.PROVED, [])


def test_a_second_token_on_one_flow_of_a_join_stays_behind() -> None:
    xml = process(
        nodes(s=START, split=AND, a=TASK, b=TASK, c=TASK, merge=XOR, join=AND, e=END),
        "s>split split>a split>b split>c a>merge b>merge merge>join c>join join>e",
    )
    verdict, problems = soundness(xml)
    assert verdict is Verdict.REFUTED
    assert [p.code for p in problems] == ["TOKEN_LEFT_BEHIND"]


def test_terminate_takes_stuck_tokens_along() -> None:
    terminate = '<endEvent id="stop"><terminateEventDefinition/></endEvent>'
    xml = process(
        nodes(s=START, split=AND, a=TASK, b=TASK) + terminate, "s>split split>a split>b a>stop b>stop"
    )
    assert soundness(xml) == (Verdict.PROVED, [])


def test_an_interrupting_timer_on_the_sub_process_is_a_way_out_of_a_join_that_cannot_fire() -> None:
    inner = nodes(is_=START, split=XOR, a=TASK, b=TASK, join=AND, ie=END) + flows(
        "is_>split split>a? split>b a>join b>join join>ie", prefix="i"
    )
    boundary = (
        '<boundaryEvent id="late" attachedToRef="sub"><timerEventDefinition>'
        "<timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>"
    )
    stuck = process(nodes(s=START, e=END) + f'<subProcess id="sub">{inner}</subProcess>', "s>sub sub>e")
    assert [p.code for p in soundness(stuck)[1]] == ["CAN_DEADLOCK"]
    rescued = process(
        nodes(s=START, e=END, e2=END) + f'<subProcess id="sub">{inner}</subProcess>{boundary}',
        "s>sub sub>e late>e2",
    )
    assert "CAN_DEADLOCK" not in [p.code for p in soundness(rescued)[1]]


def test_a_repeating_event_into_a_join_is_not_called_sound() -> None:
    boundary = (
        '<boundaryEvent id="news" attachedToRef="a" cancelActivity="false">'
        '<messageEventDefinition messageRef="m"/></boundaryEvent>'
    )
    xml = process(
        nodes(s=START, a=TASK, merge=XOR, split=AND, join=AND, e=END) + boundary,
        "s>a a>merge news>merge merge>split split>join split>join join>e",
    )
    verdict, (problem,) = soundness(xml)
    assert verdict is Verdict.UNDECIDED
    assert problem.code == "SOUNDNESS_UNDECIDED"
    assert "news" in problem.message


def test_the_budget_ends_in_undecided_never_in_ok() -> None:
    xml = process(
        nodes(s=START, split=OR, a=TASK, b=TASK, c=XOR, join=OR, e=END, e2=END),
        "s>split split>a? split>b? a>join b>c c>join? c>e2 join>e",
    )
    verdict, problems = soundness(xml, Budget(markings=2))
    assert verdict is Verdict.UNDECIDED
    assert [p.code for p in problems] == ["SOUNDNESS_UNDECIDED"]


def given_tasks(needs: int, gives: int) -> bytes:
    quantities = f'<task id="a" completionQuantity="{gives}"/><task id="b" startQuantity="{needs}"/>'
    return process(nodes(s=START, e=END) + quantities, "s>a a>b b>e")


def test_tokens_that_an_activity_gives_and_needs_are_counted() -> None:
    assert soundness(given_tasks(2, 2)) == (Verdict.PROVED, [])
    assert soundness(given_tasks(2, 4)) == (Verdict.PROVED, [])
    verdict, (problem,) = soundness(given_tasks(2, 1))
    assert verdict is Verdict.REFUTED
    assert (problem.code, problem.element_id, problem.trace) == ("CAN_DEADLOCK", "b", ("s", "a", "b"))
    assert problem.message == "b can wait for ever with 1 of 2 tokens: s → a → b"
    verdict, (problem,) = soundness(given_tasks(2, 3))
    assert (verdict, problem.code) == (Verdict.REFUTED, "TOKEN_LEFT_BEHIND")


def test_tokens_of_one_flow_are_left_behind_at_a_parallel_join() -> None:
    many = '<task id="a" completionQuantity="2"/>'
    split = nodes(s=START, split=AND, b=TASK, join=AND, e=END)
    verdict, (problem,) = soundness(process(split + many, "s>split split>a split>b a>join b>join join>e"))
    assert (verdict, problem.code) == (Verdict.REFUTED, "TOKEN_LEFT_BEHIND")
    assert "the join join can wait for ever for a token from b" in problem.message


def test_a_loop_that_gives_two_for_one_is_unbounded() -> None:
    many = '<task id="a" completionQuantity="2"/>'
    inner = nodes(s=START, merge=XOR, again=XOR, e=END)
    verdict, problems = soundness(process(inner + many, "s>merge merge>a a>again again>merge? again>e"))
    assert verdict is Verdict.REFUTED
    assert [problem.code for problem in problems] == ["UNBOUNDED_TOKENS"]


def counting(condition: str, wiring: str) -> tuple[Verdict, list[Problem]]:
    gateway = (
        f'<complexGateway id="join"><activationCondition>{condition}</activationCondition></complexGateway>'
    )
    return soundness(process(nodes(s=START, split=AND, a=TASK, b=TASK, c=TASK, e=END) + gateway, wiring))


THREE = "s>split split>a split>b split>c a>join b>join c>join join>e"


@pytest.mark.parametrize(
    "condition", ["activationCount &gt;= 2", "${activationCount &gt; 1}", "= activationCount >= 3"]
)
def test_a_complex_gateway_that_counts_is_decided(condition: str) -> None:
    assert counting(condition, THREE) == (Verdict.PROVED, [])


def test_a_complex_gateway_that_counts_too_far_is_refuted() -> None:
    verdict, problems = counting("activationCount &gt;= 4", THREE)
    assert verdict is Verdict.REFUTED
    assert problems[0].message.startswith("join can wait for ever with 3 of 4 tokens")


def test_a_complex_gateway_that_asks_for_more_than_a_count_is_not_decided() -> None:
    verdict, (problem,) = counting("activationCount &gt;= 2 and enough", THREE)
    assert verdict is Verdict.UNDECIDED
    assert "the complex gateway join" in problem.message


@pytest.mark.parametrize("parallel", [True, False])
def test_an_interrupting_event_that_needs_an_escalation_as_well_is_no_way_out(*, parallel: bool) -> None:
    inner = nodes(is_=START, split=XOR, a=TASK, b=TASK, join=AND, ie=END) + flows(
        "is_>split split>a? split>b a>join b>join join>ie", prefix="i"
    )
    boundary = (
        f'<boundaryEvent id="late" attachedToRef="sub" parallelMultiple="{str(parallel).lower()}">'
        "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
        "<escalationEventDefinition/></boundaryEvent>"
    )
    xml = process(
        nodes(s=START, e=END, e2=END) + f'<subProcess id="sub">{inner}</subProcess>{boundary}',
        "s>sub sub>e late>e2",
    )
    assert ("CAN_DEADLOCK" in [p.code for p in soundness(xml)[1]]) is parallel


ESCALATION = '<escalation id="x" escalationCode="X"/>'
RAISE = (
    '<intermediateThrowEvent id="r"><escalationEventDefinition escalationRef="x"/></intermediateThrowEvent>'
)


@pytest.mark.parametrize("interrupting", [True, False])
def test_an_escalation_that_interrupts_never_reaches_the_join_behind_it(*, interrupting: bool) -> None:
    inner = (
        nodes(s2=START, split=AND, form=TASK, choose=XOR, join=AND, e2=END, e3=END)
        + RAISE
        + flows("s2>split split>r split>form r>join form>choose choose>join? choose>e3 join>e2", "i")
    )
    how = "" if interrupting else ' cancelActivity="false"'
    boundary = (
        f'<boundaryEvent id="told" attachedToRef="sub"{how}><escalationEventDefinition/></boundaryEvent>'
    )
    xml = bpmn(
        nodes(s=START, e=END, e4=END)
        + f'<subProcess id="sub">{inner}</subProcess>{boundary}'
        + flows("s>sub sub>e told>e4"),
        roots=ESCALATION,
    )
    found = [problem.code for problem in soundness(xml)[1]]
    assert found == (["DEAD_NODE"] if interrupting else ["CAN_DEADLOCK"])


@pytest.mark.parametrize(("join", "verdict"), [(XOR, Verdict.PROVED), (AND, Verdict.REFUTED)])
def test_a_sub_process_that_only_ever_fails_is_left_by_its_boundary(join: str, verdict: Verdict) -> None:
    failing = (
        '<startEvent id="s2"/><endEvent id="e2"><errorEventDefinition errorRef="x"/></endEvent>'
        + flows("s2>e2", "i")
    )
    boundary = '<boundaryEvent id="caught" attachedToRef="sub"><errorEventDefinition/></boundaryEvent>'
    xml = bpmn(
        nodes(s=START, merge=join, e=END)
        + f'<subProcess id="sub">{failing}</subProcess>{boundary}'
        + flows("s>sub sub>merge caught>merge merge>e"),
        roots='<error id="x" errorCode="X"/>',
    )
    assert soundness(xml)[0] is verdict
