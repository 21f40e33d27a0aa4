"""What is said of cost where a price is missing: "no price", never $0.00."""

from controlplane.selectors.live import Summary
from dashboards import words
from dashboards.base import Scene, Values
from dashboards.kinds import Page

NO_PRICE = "no price"
SOME_UNPRICED = "some have no price"


def lacks_price(summary: Summary) -> bool:
    """Whether requests of the last minute have no price and nothing else of it was booked."""
    if summary.cost_nanousd_per_hour is None:
        return summary.requests_per_s is not None
    return summary.has_unknown_cost and summary.cost_nanousd_per_hour == 0


def priced_costs(scene: Scene) -> Values:
    """The cost of each bucket; nowhere a 0 if all that is shown has no price."""
    total = scene.view.total
    costs = total.cost_nanousd_per_hour
    has_unpriced = lacks_price(scene.view.summary) or any(
        cost is None and requests for cost, requests in zip(costs, total.requests, strict=True)
    )
    return [None] * len(costs) if has_unpriced and not any(costs) else costs


def why_unpriced(scene: Scene) -> str:
    """Which models have no price, in a sentence."""
    summaries = scene.view.pool_summaries
    models = sorted(
        {
            pool.model
            for pool in scene.pools
            if scene.page is Page.POOL
            or ((one := summaries.get(pool.id)) is not None and one.has_unknown_cost)
        }
    )
    if not models:
        return "No price: no request of the last minute has one."
    noun, verb = ("model", "has") if len(models) == 1 else ("models", "have")
    return f"No price: the {noun} {words.named(models)} {verb} none."
