"""A server over Ray Serve: fronts that speak HTTP, and replicas with an engine each.

    client ── Serve's proxy ── front (front.py, relay.py) ──┬── replica (replica.py)
                                  └ router (router.py)      ├── replica
                                                            └── …
Ray Serve starts, watches, scales and replaces both, and keeps the queue. To deploy again over an
application that runs replaces its model, replica by replica.

What this module does not know: how an engine is made. `make` comes from above, and is pickled.
"""

from __future__ import annotations

import logging
import math
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.cluster.connect import LOCAL, connected, last_line
from forerun.engine import Engine
from forerun.errors import OptionError, ReplicaError
from forerun.server import ServerConfig

log = logging.getLogger("forerun.server")

NAME = "forerun"  # of the application
LOOK = 1.0  # seconds between looks at it
ROUTER = "forerun.cluster.router.PrefixRouter"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many of what. Raises OptionError for values that make no sense."""

    replicas: int | None  # None: as many as the queue asks for, and the cluster holds
    cpus: int  # of a replica
    gpus: float
    fronts: int
    max_batch: int  # answers that a replica writes at once
    max_waiting: int  # that wait in a front
    timeout: float  # seconds of a request: a replica that goes has so long to end its own

    def __post_init__(self) -> None:
        for name, least in (("replicas", 1), ("cpus", 1), ("fronts", 1), ("gpus", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                option = name if name in ("replicas", "fronts") else f"{name}-per-replica"
                raise OptionError(f"--{option} must be at least {least}, not {value}")

    def most(self, there: dict[str, float]) -> int:
        """Replicas that what is there has room for."""
        by_cpu = there.get("CPU", 0.0) / self.cpus
        by_gpu = there.get("GPU", 0.0) / self.gpus if self.gpus else math.inf
        return int(min(by_cpu, by_gpu))


class RayServer:
    """`run` serves until it is told to stop. `address` "local" starts a Ray of its own.

    make, model, wanted   as `EngineReplica` takes them

    MissingExtraError without ray, OptionError for a port that is taken.
    """

    def __init__(
        self,
        address: str,
        layout: Layout,
        config: ServerConfig,
        *,
        make: Callable[[], Engine],
        model: Callable[[], str],
        share_prefixes: bool,
        host: str,
        port: int,
        log_file: Path | None,
        log_level: int,
    ) -> None:
        self._own = address == LOCAL
        if self._own:
            port = _free(host, port)
        self._ray = connected(address, part="serve")
        self._layout, self._config = layout, config
        self._make, self._model = make, model
        self._host, self._port = host, port
        self._front = {
            "share_prefixes": share_prefixes,
            "log_file": None if log_file is None else log_file.absolute(),
            "log_level": log_level,
        }
        self._command = uuid.uuid4().hex  # names this command among those that deploy here
        self._others: set[str] = set()  # whose fronts were seen before its own
        self._seen = False  # its own
        self._alone = False  # nobody's Serve was there before
        self._deployed = False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Deploy, wait, and let what is asked end. ReplicaError where it cannot be deployed, or
        fails."""
        try:
            self._deploy()
            self._watch(stopping)
        except self._ray.exceptions.RayError as error:
            raise ReplicaError(f"Ray: {last_line(error)}") from error
        finally:
            self.close()

    def close(self) -> None:
        """End what was started here, and leave what was not."""
        serve = self._ray.serve
        try:
            if self._deployed:
                log.info("draining")
                serve.delete(NAME)
                if self._alone and not self._own and not serve.status().applications:
                    serve.shutdown()
                log.info("closed")
        finally:
            self._deployed = False
            if self._own:
                self._ray.shutdown()

    # ------------------------------------------------------------------ parts

    def _deploy(self) -> None:
        serve, there = self._ray.serve, self._ray.cluster_resources()
        layout, wanted = self._layout, self._layout.replicas
        most = layout.most(there)
        if most < (wanted or 1):
            said = (
                f"{wanted or 1} replicas of {layout.cpus} CPUs and {layout.gpus:g} GPUs each do "
                f"not fit into {there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
            )
            if self._own:
                raise OptionError(said)
            log.warning("cluster_small", extra={"fields": {"said": said}})
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        self._alone = not self._runs()
        where = {"host": self._host, "port": self._port}
        serve.start(proxy_location="EveryNode", http_options=where if self._alone else None)
        try:
            serve.run_many(
                [serve.RunTarget(self._application(max(most, 1)), name=NAME, route_prefix="/")],
                wait_for_applications_running=False,
            )
        except (ValueError, RuntimeError) as error:
            raise ReplicaError(f"Ray Serve: {last_line(error)}") from None
        self._deployed = True

    def _application(self, most: int) -> Any:
        from forerun.cluster.front import Front  # here: they import ray
        from forerun.cluster.gauges import GaugedReplica

        serve, layout = self._ray.serve, self._layout
        many: dict[str, Any] = {"num_replicas": layout.replicas}
        if layout.replicas is None:
            many = {
                "autoscaling_config": {
                    "min_replicas": 1,
                    "max_replicas": most,
                    "target_ongoing_requests": layout.max_batch,
                    "metrics_interval_s": 5,
                    "look_back_period_s": 10,
                    "upscale_delay_s": 10,
                }
            }
        replicas = serve.deployment(
            GaugedReplica,
            name="replicas",
            ray_actor_options={"num_cpus": layout.cpus, "num_gpus": layout.gpus},
            max_ongoing_requests=2 * layout.max_batch,  # those that wait have their place in time
            max_queued_requests=max(layout.max_waiting, 1),
            health_check_period_s=10,
            health_check_timeout_s=30,
            graceful_shutdown_wait_loop_s=0.5,
            graceful_shutdown_timeout_s=layout.timeout,
            request_router_config={"request_router_class": ROUTER},
            **many,
        )
        fronts = serve.deployment(
            Front,
            name="fronts",
            num_replicas=layout.fronts,
            ray_actor_options={"num_cpus": 0},
            max_ongoing_requests=100_000,  # those that wait are counted behind it
            max_surge_percent=100,  # a new one is there before the old one goes
            graceful_shutdown_wait_loop_s=0.5,
            graceful_shutdown_timeout_s=layout.timeout,
        )
        wanted = self._model()
        bound = replicas.bind(self._make, self._model, wanted, self._config.models[0])
        return fronts.bind(bound, wanted, self._command, self._config, **self._front)

    def _watch(self, stopping: Callable[[], bool]) -> None:
        serve = self._ray.serve
        told = ""
        while not stopping():
            app = serve.status().applications.get(NAME)
            if app is None or self._taken():
                self._deployed = False  # it is another's now
                log.info("taken_over" if app is not None else "deleted_by_another")
                return
            if app.status == "DEPLOY_FAILED":
                raise ReplicaError(f"Ray Serve: {last_line(app.message)}")
            counts = app.deployments["replicas"].replica_states if app.deployments else {}
            now = f"{app.status} {counts}"
            if now != told:
                told = now
                self._tell(app.status.value, {str(state): n for state, n in counts.items()})
            time.sleep(LOOK)

    def _taken(self) -> bool:
        """Whether another command has deployed over this one's application."""
        try:
            name = self._ray.serve.get_app_handle(NAME).command.remote().result(timeout_s=10 * LOOK)
        except Exception:  # nobody is there yet, or any more
            return False
        self._seen = self._seen or name == self._command
        if not self._seen:
            self._others.add(name)
        return name not in {self._command, *self._others}

    def _tell(self, status: str, counts: dict[str, int]) -> None:
        fields: dict[str, Any] = {"status": status, "replicas": counts}
        if status == "RUNNING":
            fields["url"] = self._url()
            if self._own:
                fields["engine_metrics"] = self._metrics()
        log.info("serving" if status == "RUNNING" else "replicas", extra={"fields": fields})

    def _runs(self) -> bool:
        """Whether Serve runs on this cluster."""
        try:
            self._ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
        except ValueError:
            return False
        return True

    def _url(self) -> str:
        """Where Serve listens: of a Serve that was there before, where that does."""
        from ray.serve.context import _get_global_client

        http = _get_global_client().http_config
        host = f"[{http.host}]" if ":" in str(http.host) else http.host
        return f"http://{host}:{http.port}"

    def _metrics(self) -> str | None:
        """Where this machine tells Ray's metrics, and among them the engines'."""
        for node in self._ray.nodes():
            if port := node.get("MetricsExportPort"):
                return f"http://{node['NodeManagerAddress']}:{port}/metrics"
        return None


def _free(host: str, port: int) -> int:
    """The port, or a free one for 0. OptionError where it is taken."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"host {host!r}, port {port} cannot be served at: {reason}") from None
