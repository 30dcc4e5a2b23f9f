"""Pictures of processes: a diagram drawn as SVG, a layout for files that have none, an outline in text."""

from bpm_engine.bpmn.draw.layout import lay_out, lay_out_each
from bpm_engine.bpmn.draw.scene import draw_svg
from bpm_engine.bpmn.draw.shapes import Style

__all__ = ["Style", "draw_svg", "lay_out", "lay_out_each"]
