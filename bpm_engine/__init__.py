"""An embeddable BPMN 2.0 token engine on PostgreSQL."""
