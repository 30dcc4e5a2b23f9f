"""The expression language: one evaluator, three notations, no way out.

Conditions, mappings, correlation keys and script tasks are compiled once, at deploy, into closures
over the process variables. Python-like text is the default notation; `${…}` and `#{…}` are read as
JUEL, a leading `=` as FEEL. Times (durations, dates, cycles, cron) are parsed here as well, because
timers and expressions must agree on what `P1M` means.

Everything is pure: no clock, no IO, no attribute of a Python object. Anything wrong is an
`ExpressionError` with a code and a position.
"""

from bpm_engine.bpmn.expressions.cycles import Cycle, parse_cycle
from bpm_engine.bpmn.expressions.durations import Duration, parse_datetime, parse_duration
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.expression import Expression, Notation, compile_expression, compile_template
from bpm_engine.bpmn.expressions.script import Assignment, Script, compile_script
from bpm_engine.bpmn.expressions.values import Value, to_json

__all__ = [
    "Assignment",
    "Cycle",
    "Duration",
    "Expression",
    "ExpressionError",
    "Notation",
    "Script",
    "Value",
    "compile_expression",
    "compile_script",
    "compile_template",
    "parse_cycle",
    "parse_datetime",
    "parse_duration",
    "to_json",
]
