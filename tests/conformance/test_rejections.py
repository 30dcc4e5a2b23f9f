"""Files of the BPMN Engine Test System that violate one constraint each are refused, for that reason.

The folder named by BPM_CONFORMANCE_DIR holds the cases. The table below says, per constraint of the
catalogue of BPMNspector, which of our rules stand for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpm_engine.bpmn.constraints import check_document
from bpm_engine.bpmn.document import read_document
from bpm_engine.errors import DefinitionError
from bpm_engine.problems import Severity

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR", "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BPM_CONFORMANCE_DIR names no folder with conformance cases"
)

# Which of our rules stand for which constraints of the catalogue. EXT151 forbids a path to end without
# an end event, which we allow; its files also hold nodes that no flow reaches.
RULES_AND_CONSTRAINTS = """
MISSING_ATTRIBUTE: EXT003
DUPLICATE_ID: EXT004
DANGLING_REFERENCE WRONG_REFERENCE: EXT006 EXT007 EXT008 EXT009 REF
ERROR_CODE_MISSING BAD_VALUE: EXT010
ESCALATION_CODE_MISSING: EXT011
EXPRESSION_NOT_FORMAL: EXT012
EXPRESSION_EMPTY: EXT013
BAD_VALUE: EXT014
FLOW_NOT_IMMEDIATE: EXT024
GATEWAY_DIRECTION: EXT017 EXT018 EXT019
COLLECTION_MISMATCH: EXT020 EXT081 EXT083
FLOW_TO_EVENT_SUBPROCESS WRONG_REFERENCE: EXT021 EXT022 EXT057
FLOW_LISTING_CONTRADICTS: EXT023
CONDITIONAL_FLOW_ALONE: EXT025
DEFAULT_FLOW_NOT_OWN: EXT026
CHOREOGRAPHY_REFERENCE: EXT027
FLOW_CROSSES_SCOPE: EXT028 EXT152
PARTICIPANT_MULTIPLICITY: EXT029 EXT030
MESSAGE_FLOW_WITHIN_POOL: EXT031
GLOBAL_CONVERSATION_CONTENT: EXT032
UNKNOWN_ELEMENT: EXT036 EXT056 EXT077 EXT078
QUANTITY_TOO_SMALL: EXT037 EXT038
RESOURCE_ASSIGNED_TWICE: EXT039 EXT040
MULTIPLE_LOOP_MARKERS: EXT041 EXT054
OPERATION_WITHOUT_IO: EXT042 EXT043 EXT046 EXT050
MESSAGE_DATA_SURPLUS: EXT047 EXT051
ITEM_MISMATCH: EXT044 EXT045 EXT048 EXT052 EXT065 EXT069 EXT070 EXT091 EXT094
INSTANTIATING_NODE_HAS_INCOMING: EXT049 EXT142
EVENT_SUBPROCESS_START: EXT058
EVENT_DEFINITION_MISSING EVENT_NOT_ALLOWED: EXT059 EXT110 EXT129 EXT147 EXT148
AD_HOC_EMPTY: EXT061
AD_HOC_CONTENT UNKNOWN_ELEMENT: EXT062
CALL_DATA_MISMATCH: EXT063
SERVICE_NOT_BOUND: EXT064
MULTI_INSTANCE_WITHOUT_COUNT: EXT067
CONDITION_NOT_BOOLEAN: EXT071 EXT072
MULTI_INSTANCE_EVENT_MISSING: EXT073 EXT074 EXT075
DATA_REFERENCE_NAME: EXT076
SUBPROCESS_HAS_IO: EXT079
DATA_ASSOCIATION_DIRECTION: EXT080 EXT082
DATA_NOT_IN_SET: EXT084 EXT088
DATA_SET_INCONSISTENT: EXT085 EXT086 EXT087 EXT089 EXT090
DATA_ASSOCIATION_SOURCES: EXT092
EVENT_DATA_MISSING: EXT093
EVENT_DEFINITION_SHARED: EXT095
START_EVENT_HAS_INCOMING: EXT096
NO_START_EVENT: EXT097
NO_END_EVENT: EXT105
EVENT_NOT_ALLOWED: EXT098 EXT100 EXT121 EXT122 EXT146 EXT149
CALLED_PROCESS_NOT_STARTABLE: EXT099
MESSAGE_FLOW_END: EXT102 EXT108 EXT119
END_EVENT_HAS_OUTGOING: EXT104
CANCEL_OUTSIDE_TRANSACTION: EXT106 EXT111 EXT120
NODE_WITHOUT_INCOMING: EXT107 EXT115 EXT150 EXT151
BOUNDARY_EVENT_HAS_INCOMING: EXT112
BOUNDARY_EVENT_WITHOUT_OUTGOING: EXT113
COMPENSATION_HAS_FLOW: EXT114
INTERMEDIATE_EVENT_WITHOUT_OUTGOING: EXT116
LINK_HAS_FLOW: EXT117
LINK_WITHOUT_PARTNER LINK_HALF_REFERENCED: EXT118 EXT124 EXT125 EXT126
EXPRESSION_EMPTY EXPRESSION_NOT_FORMAL: EXT123
MESSAGE_MISSING: EXT127
TIMER_VALUES: EXT131
TIMER_VALUE_INVALID: EXT132 EXT133 EXT134
GATEWAY_UNCONNECTED: EXT135
EVENT_GATEWAY_TOO_FEW: EXT136
EVENT_GATEWAY_CONDITION: EXT137
EVENT_GATEWAY_TARGET: EXT138
EVENT_GATEWAY_MIXED: EXT139
EVENT_GATEWAY_TARGET_BOUNDARY: EXT140
EVENT_GATEWAY_TARGET_SHARED: EXT141
COMPENSATION_HANDLER_MISSING: EXT143
COMPENSATION_HANDLER_UNMARKED: EXT144
SCRIPT_FORMAT_UNKNOWN: EXT145
"""
REASONS = {
    constraint: set(rules.split())
    for rules, _, constraints in (line.partition(":") for line in RULES_AND_CONSTRAINTS.strip().splitlines())
    for constraint in constraints.split()
}

# Constraints we do not enforce, because common tools break them and nothing is unclear about the process.
TOLERATED = {
    "EXT012/EXT012_7_failure_timerEvent_timeCycle": "a timer's text is ISO 8601 with or without xsi:type",
    "EXT035/EXT035_1_failure": "several tools write processType Public on executable processes",
    "EXT101/EXT101_1_fail": "`outgoing` repeats what the sequence flow says and is never needed",
    "EXT103/EXT103_1_Fail": "a diagram may show who triggers a plain start event",
    "EXT128/EXT128_3_failure_intCatch": "a message needs no operation to be correlated",
    "EXT128/EXT128_4_failure_intThrow": "a message needs no operation to be sent",
    "EXT128/EXT128_5_failure_startEvent": "a message needs no operation to be correlated",
}

REFUSED_SHARE = 0.95


def cases(kind: str) -> Iterator[tuple[str, Path]]:
    if FOLDER:
        folder = Path(FOLDER)
        for case in json.loads((folder / "betsy.json").read_text())["cases"]:
            if case["kind"] == kind:
                yield case["id"].removeprefix("bpmn_constraints/"), folder / case["bpmn"]


def errors(file: Path) -> set[str]:
    try:
        problems = check_document(read_document(file.read_bytes()))
    except DefinitionError as refusal:
        problems = list(refusal.problems)
    return {problem.code for problem in problems if problem.severity is Severity.ERROR}


REJECTIONS = dict(cases("rejection"))
EXECUTIONS = dict(cases("execution"))


@pytest.mark.parametrize("case", [case for case in REJECTIONS if case not in TOLERATED])
def test_a_violated_constraint_is_refused_for_its_reason(case: str) -> None:
    assert errors(REJECTIONS[case]) & REASONS[case.partition("/")[0]]


@pytest.mark.parametrize("case", [case for case in REJECTIONS if case in TOLERATED])
def test_a_tolerated_deviation_is_accepted(case: str) -> None:
    assert errors(REJECTIONS[case]) == set()


def test_nearly_every_constraint_is_enforced() -> None:
    refused = [case for case, file in REJECTIONS.items() if errors(file)]

    assert len(refused) >= REFUSED_SHARE * len(REJECTIONS)


# Its own oracle expects a refusal before anything runs: no task may complete with zero tokens.
REFUSED_EXECUTIONS = {"errors/Token_CompletionQuantity_Zero#1": {"QUANTITY_TOO_SMALL"}}


@pytest.mark.parametrize("case", EXECUTIONS)
def test_a_file_to_run_is_accepted(case: str) -> None:
    assert errors(EXECUTIONS[case]) == REFUSED_EXECUTIONS.get(case, set())
