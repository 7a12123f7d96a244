"""A run as JUnit XML, which CI systems show.

What fails there is a threshold that was missed; a wrong answer is `skipped` with its reason, since
one alone is a figure and no failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from aicore_sim.evaluation.report import Result
from aicore_sim.evaluation.thresholds import Checked

# XML 1.0 cannot hold these, not even as references. https://www.w3.org/TR/xml/#charsets
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(name: str, runs: Sequence[tuple[str, Sequence[Result], Sequence[Checked]]]) -> str:
    """`runs` are the grammar, the results and the thresholds of each."""
    root = Xml.Element("testsuites", name=_text(name))
    for grammar, results, checked in runs:
        _suite(root, f"{name}, grammar {grammar}", results)
        if checked:
            _thresholds(root, f"{name}, grammar {grammar}, thresholds", checked)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _suite(root: Xml.Element, name: str, results: Sequence[Result]) -> None:
    wrong = sum(not result.verdict.right for result in results)
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=_text(name),
        tests=str(len(results)),
        failures="0",
        errors="0",
        skipped=str(wrong),
        time=f"{sum(result.cost.seconds for result in results):.3f}",
    )
    for result in results:
        case = Xml.SubElement(
            suite,
            "testcase",
            classname=_text(result.case.category),
            name=_text(result.case.id),
            time=f"{result.cost.seconds:.3f}",
        )
        if not result.verdict.right:
            Xml.SubElement(case, "skipped", message=_text(f"wrong: {result.verdict.why}"))


def _thresholds(root: Xml.Element, name: str, checked: Sequence[Checked]) -> None:
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=_text(name),
        tests=str(len(checked)),
        failures=str(sum(not one.met for one in checked)),
        errors="0",
        skipped="0",
        time="0",
    )
    for one in checked:
        case = Xml.SubElement(suite, "testcase", classname="thresholds", name=one.threshold.name)
        if not one.met:
            Xml.SubElement(case, "failure", message=_text(one.shown()))


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
