"""The passes of compilation, each in its own module; `bpm_engine.bpmn.compile` runs them in order."""
