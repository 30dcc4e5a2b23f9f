"""Is this file valid BPMN? Every rule that the XML alone can answer, all problems in one pass.

`structure`, `references` and `identifiers` come from the vocabulary table; the other modules hold the
constraints that the specification states in prose, by topic. What needs the compiled graph
(reachability, soundness, expressions) is checked elsewhere.
"""

from __future__ import annotations

from bpm_engine.bpmn.constraints.activities import check_activities
from bpm_engine.bpmn.constraints.catchers import check_catchers
from bpm_engine.bpmn.constraints.collaboration import check_collaboration
from bpm_engine.bpmn.constraints.compensation import check_compensation
from bpm_engine.bpmn.constraints.connections import check_connections
from bpm_engine.bpmn.constraints.data import check_data
from bpm_engine.bpmn.constraints.event_gateways import check_event_gateways
from bpm_engine.bpmn.constraints.events import check_events
from bpm_engine.bpmn.constraints.expressions import check_expressions
from bpm_engine.bpmn.constraints.facts import Facts
from bpm_engine.bpmn.constraints.flows import check_flows
from bpm_engine.bpmn.constraints.identifiers import check_identifiers
from bpm_engine.bpmn.constraints.interfaces import check_interfaces
from bpm_engine.bpmn.constraints.links import check_links
from bpm_engine.bpmn.constraints.structure import check_structure
from bpm_engine.bpmn.document import Document
from bpm_engine.problems import Problem

_CHECKS = (
    check_identifiers,
    check_structure,
    check_flows,
    check_connections,
    check_events,
    check_catchers,
    check_links,
    check_event_gateways,
    check_compensation,
    check_activities,
    check_expressions,
    check_data,
    check_interfaces,
    check_collaboration,
)


def check_document(document: Document) -> list[Problem]:
    facts = Facts.of(document)
    for check in _CHECKS:
        check(facts)
    return facts.problems
