"""The parts of the parser, by family of BPMN elements. `bpm_engine.bpmn.parse` puts them together."""
