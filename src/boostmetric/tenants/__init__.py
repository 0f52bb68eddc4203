"""One metric for all tenants of a service, and a few further directions for each of them."""

from boostmetric.tenants.directions import TenantDirections, TenantFit
from boostmetric.tenants.metrics import TenantMetrics

__all__ = ["TenantDirections", "TenantFit", "TenantMetrics"]
