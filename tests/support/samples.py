"""Small processes for tests of the whole engine. All have the key `p`."""

from __future__ import annotations

from support.definitions import bpmn, flow, path

START, END = '<startEvent id="start"/>', '<endEvent id="end"/>'
MESSAGE = '<message id="m" name="paid"/>'
SIGNAL = '<signal id="s" name="closed"/>'

# start -> work (topic "work") -> end
WORK = bpmn(f'{START}<serviceTask id="work" bpm:topic="work"/>{END}' + path("start", "work", "end"))

# start -> decide (a person) -> end
HUMAN = bpmn(
    f'{START}<userTask id="decide" name="Decide" bpm:candidateGroups="clerks">'
    '<extensionElements><bpm:field name="approved" type="boolean" required="true"/>'
    '<bpm:guard condition="${amount &lt; 100 or approved == false}" message="too much for a clerk"/>'
    f"</extensionElements></userTask>{END}" + path("start", "decide", "end")
)

# start -> wait for the message "paid" with the key in `order` -> end
WAIT = bpmn(
    f'{START}<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m" '
    f'bpm:correlationKey="${{order}}"/></intermediateCatchEvent>{END}' + path("start", "wait", "end"),
    roots=MESSAGE,
)

# the message "paid" -> end
STARTED_BY_MESSAGE = bpmn(
    '<startEvent id="begun"><messageEventDefinition messageRef="m"/></startEvent>'
    '<userTask id="look"/><endEvent id="end"/>' + path("begun", "look", "end"),
    roots=MESSAGE,
)

# start -> wait for the signal "closed" -> end
LISTEN = bpmn(
    f'{START}<intermediateCatchEvent id="listen"><signalEventDefinition signalRef="s"/>'
    f"</intermediateCatchEvent>{END}" + path("start", "listen", "end"),
    roots=SIGNAL,
)

# every hour -> end, three times
HOURLY = bpmn(
    '<startEvent id="tick"><timerEventDefinition><timeCycle>R3/PT1H</timeCycle></timerEventDefinition>'
    '</startEvent><endEvent id="end"/>' + path("tick", "end")
)

# start -> wait an hour -> end
HOUR = bpmn(
    f'{START}<intermediateCatchEvent id="pause"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
    f"</timerEventDefinition></intermediateCatchEvent>{END}" + path("start", "pause", "end")
)

# a person at any time hands in papers, by the message "paid", until the task is done
PAPERS = bpmn(
    f'{START}<userTask id="task"/>{END}'
    '<boundaryEvent id="paper" attachedToRef="task" cancelActivity="false">'
    '<messageEventDefinition messageRef="m" bpm:correlationKey="${order}"/></boundaryEvent>'
    '<endEvent id="filed"/>' + path("start", "task", "end") + flow("paper", "filed"),
    roots=MESSAGE,
)
