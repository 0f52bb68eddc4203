"""Self-contained HTML pages with results: page, tables, charts, and the report on a learned metric."""

from boostmetric.report.model import write_model_report
from boostmetric.report.page import heading, paragraph, picture, table, write_page

__all__ = ["heading", "paragraph", "picture", "table", "write_model_report", "write_page"]
