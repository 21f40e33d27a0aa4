"""What is said of cost where a price is missing: "no price", never $0.00."""

from controlplane.selectors import live
from dashboards import words
from dashboards.base import Scene, Values
from dashboards.kinds import Page

NO_PRICE = "no price"
SOME_UNPRICED = "some have no price"


def lacks_price(scene: Scene) -> bool:
    """Whether nothing was booked in the last minute, and no price says that it cost nothing."""
    return scene.view.summary.lacks_price(is_priced=_is_priced(scene))


def _is_priced(scene: Scene) -> bool:
    """Whether any model that is served has a price; nothing served costs nothing."""
    return not scene.pools or any(pool.is_priced for pool in scene.pools)


def priced_costs(scene: Scene) -> Values:
    """The cost of each bucket; nowhere a 0 if all that is shown has no price."""
    return live.priced_costs(scene.view.total, lacks_price=lacks_price(scene))


def why_unpriced(scene: Scene) -> str:
    """Which models have no price, in a sentence."""
    summaries = scene.view.pool_summaries
    models = sorted(
        {
            pool.model
            for pool in scene.pools
            if scene.page is Page.POOL
            or not _is_priced(scene)
            or ((one := summaries.get(pool.id)) is not None and one.has_unknown_cost)
        }
    )
    if not models:
        return "No price: no request of the last minute has one."
    noun, verb = ("model", "has") if len(models) == 1 else ("models", "have")
    return f"No price: the {noun} {words.named(models)} {verb} none."
