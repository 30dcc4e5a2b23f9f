"""The same process in other words: every node and flow of a file gets another id."""

from __future__ import annotations

from lxml import etree

KEPT = ("definitions", "process", "message", "signal", "error", "escalation")


def renamed(xml: str) -> tuple[str, dict[str, str]]:
    """The file with new ids, and which id became which."""
    root = etree.fromstring(xml.encode())
    elements = [each for each in root.iter() if isinstance(each.tag, str)]
    ids = [each.get("id") for each in elements if etree.QName(each).localname not in KEPT]
    mapping = {each: f"new_{each}" for each in ids if each}
    for element in elements:
        if etree.QName(element).localname in KEPT:
            continue
        for name, value in element.attrib.items():
            if value in mapping and name != "name":
                element.set(name, mapping[value])
        if element.text is not None and element.text.strip() in mapping:
            element.text = mapping[element.text.strip()]
    return etree.tostring(root).decode(), mapping
