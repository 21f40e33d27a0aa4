"""What experiments' requests come to, and feedback. Labels are bounded by configuration."""

from prometheus_client import CollectorRegistry, Counter

from inference.contract.events import Exposure


class ExperimentMetrics:
    """Counts of one gateway process: who took part, by which variant, and why others didn't."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._exposures = Counter(
            "headworks_gateway_exposures",
            "Requests that took part in an experiment, by the variant assigned and how served:"
            " by it, by the control in its place, or not at all",
            ("experiment", "variant", "served"),
            registry=registry,
        )
        self._unexposed = Counter(
            "headworks_gateway_unexposed",
            "Requests of a route with an experiment that took no part in it, and why",
            ("experiment", "reason"),
            registry=registry,
        )

        self._feedback = Counter(
            "headworks_gateway_feedback",
            "Feedback on answers that was written down",
            registry=registry,
        )

    def exposed(self, exposure: Exposure) -> None:
        """Count a request that took part and has ended."""
        served = exposure.served_variant_id
        by = (
            "none" if served is None else "assigned" if served == exposure.variant_id else "control"
        )
        self._exposures.labels(exposure.experiment_id, exposure.variant_id, by).inc()

    def feedback_taken(self) -> None:
        """Count feedback that was written down."""
        self._feedback.inc()

    def unexposed(self, experiment_id: str, reason: str) -> None:
        """Count one that took no part."""
        self._unexposed.labels(experiment_id, reason).inc()
