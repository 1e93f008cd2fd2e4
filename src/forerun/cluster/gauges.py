"""A replica whose engine's gauges are among Ray's own metrics.

Ray gathers what its processes measure, and each machine tells Prometheus of it. Names are those of
a server's `/metrics` behind Ray's prefix, `ray_forerun_num_requests_running`; Serve labels them
with application, deployment and replica. They are as of the last look after the replica's health.

What this module does not know: how Ray tells them.
"""

from __future__ import annotations

from typing import Any

from ray.serve.metrics import Gauge

from forerun.cluster.replica import EngineReplica
from forerun.server.metrics import GAUGES


class GaugedReplica(EngineReplica):
    """Takes what `EngineReplica` takes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._gauges = {
            field: Gauge(f"forerun_{name}", description=help)
            for field, (name, help) in GAUGES.items()
        }

    def check_health(self) -> None:
        super().check_health()
        status = self.status()
        for field, gauge in self._gauges.items():
            if (value := getattr(status, field)) is not None:
                gauge.set(float(value))
