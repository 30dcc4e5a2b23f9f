"""A layered layout for files without a diagram: columns by longest path, rows by chains, right angles."""

from bpm_engine.bpmn.draw.layout.whole import lay_out, lay_out_each

__all__ = ["lay_out", "lay_out_each"]
