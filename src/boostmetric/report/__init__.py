"""Results as one HTML page, with no outside links: page, tables, charts, and the report of a learned metric."""

from boostmetric.report.model import write_model_report
from boostmetric.report.page import heading, paragraph, picture, table, write_page

__all__ = ["heading", "paragraph", "picture", "table", "write_model_report", "write_page"]
