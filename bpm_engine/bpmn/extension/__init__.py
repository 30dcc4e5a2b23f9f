"""Our extension namespace for other tools: an XSD, and a moddle descriptor for bpmn.io."""

from __future__ import annotations

from importlib.resources import files


def schema() -> bytes:
    """The XSD of `urn:bpm-engine:1`."""
    return (files(__name__) / "bpm.xsd").read_bytes()


def descriptor() -> bytes:
    """The moddle descriptor: JSON that tells bpmn.io which properties exist."""
    return (files(__name__) / "bpm.json").read_bytes()
