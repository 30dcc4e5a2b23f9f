"""From BPMN XML to a verified process graph. Knows nothing of tokens."""

from bpm_engine.bpmn.check import check_handlers, check_support
from bpm_engine.bpmn.compile import compile_process
from bpm_engine.bpmn.graph import Flow, Graph, Kind, Node, Scope
from bpm_engine.bpmn.load import Loaded, load
from bpm_engine.bpmn.model import Definitions, Process

__all__ = [
    "Definitions",
    "Flow",
    "Graph",
    "Kind",
    "Loaded",
    "Node",
    "Process",
    "Scope",
    "check_handlers",
    "check_support",
    "compile_process",
    "load",
]
