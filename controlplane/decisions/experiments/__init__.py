"""What an experiment has shown: from sums a unit to a verdict with the rule that gave it.

Belongs here: estimates of what units did (`sums`, `quantiles`), how two of them compare
(`contrasts`), what may be concluded of it and when (`looks`, `sample_ratio`, `discoveries`,
`guardrails`, `verdicts`), how many units it takes (`planning`), all of it at once for pages and API
(`comparisons`, `readout`), and a bandit's shares (`bandits`). A design's words are in `design`; how
it all is meant, in docs/statistics.md. Does not belong here: who gets which variant (the gateway
decides), rows, clocks, chance, Django. To add a kind of metric: name it in `design`, and give
`levels` something with a value and limits for it; what follows knows no kinds.
"""
