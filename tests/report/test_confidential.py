import json

from auditor.contract import Audit, write_audit
from auditor.report.confidential import without_names
from auditor.report.html import render_html
from auditor.report.markdown import render_markdown


def test_names_paths_and_source_are_gone_and_numbers_stay(audit: Audit) -> None:
    hidden = without_names(audit)
    secrets = {f.file for f in audit.findings if f.file} | {audit.subject.source, audit.subject.model_type}
    secrets |= {layer.module for layer in audit.layers if "." in layer.module}
    secrets |= {line.strip() for f in audit.findings for line in f.source if len(line.strip()) > 12}
    for text in (write_audit(hidden), render_html(hidden), render_markdown(hidden)):
        assert [s for s in secrets if s in text] == []
    assert [x.precision for x in hidden.layers] == [x.precision for x in audit.layers]
    assert [f.evidence.values.get("absmax") for f in hidden.findings] == [
        f.evidence.values.get("absmax") for f in audit.findings
    ]
    assert hidden.verdict == audit.verdict and "Linear" in {x.type for x in hidden.layers}


def test_a_module_keeps_one_name_throughout(audit: Audit) -> None:
    hidden = without_names(audit)
    names = dict(zip((x.module for x in audit.layers), (x.module for x in hidden.layers), strict=True))
    for before, after in zip(audit.findings, hidden.findings, strict=True):
        assert names.get(before.module, after.module) == after.module
    assert json.loads(write_audit(hidden)) == json.loads(write_audit(without_names(audit)))
