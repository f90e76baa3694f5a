"""Writing an audit down in the formats people and programs read."""

from auditor.report.writers import FORMATS, check_formats, write_reports

__all__ = ["FORMATS", "check_formats", "write_reports"]
