"""What is written into an activity: loop markers, and the data that it waits for."""

from __future__ import annotations

from support.generator.blocks import Again, Repeat, Until


def repetition(block: Repeat) -> str:
    tag = "multiInstanceLoopCharacteristics"
    attributes = "" if block.parallel else ' isSequential="true"'
    content = ""
    if block.behavior != "All":
        word = block.behavior.lower()
        attributes += f' behavior="{block.behavior}" {word}BehaviorEventRef="said_{block.id}"'
    if block.collection:
        attributes += (
            f' bpm:collection="items_{block.id}" bpm:elementVariable="item_{block.id}"'
            f' bpm:outputCollection="out_{block.id}" bpm:outputElement="item_{block.id} * 10"'
        )
    else:
        content += f"<loopCardinality>{block.count}</loopCardinality>"
    if block.until is not None:
        content += f"<completionCondition>nrOfCompletedInstances &gt;= {block.until}</completionCondition>"
    return f"<{tag}{attributes}>{content}</{tag}>"


def standard_loop(block: Again) -> str:
    tag = "standardLoopCharacteristics"
    if block.until is Until.MAXIMUM:
        return f'<{tag} loopMaximum="{block.times}"/>'
    before = ' testBefore="true"' if block.until is Until.WHILE else ""
    return f"<{tag}{before}><loopCondition>loopCounter &lt; {block.times}</loopCondition></{tag}>"


def late_data(task: str) -> str:
    """An input set that is available when `d_<task>` is there."""
    data = f"{task}_data"
    return (
        f'<ioSpecification><dataInput id="{data}" name="{data}"/>'
        f"<inputSet><dataInputRefs>{data}</dataInputRefs></inputSet><outputSet/></ioSpecification>"
        f"<dataInputAssociation><targetRef>{data}</targetRef><transformation>d_{task}</transformation>"
        "</dataInputAssociation>"
    )
