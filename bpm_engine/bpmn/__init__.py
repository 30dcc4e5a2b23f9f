"""From BPMN XML to a verified process graph. Knows nothing of tokens."""
