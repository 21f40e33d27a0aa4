"""Words for numbers, times and units, each by one name: what guards compare to the letter."""

from collections.abc import Mapping

_CARDINALS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
""".split()
_ORDINALS = """
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
""".split()
NUMBERS: Mapping[str, str] = {
    **{word: str(value) for value, word in enumerate(_CARDINALS)},
    **{word: str(value) for value, word in enumerate(_ORDINALS)},
    **dict(thirty="30", forty="40", fifty="50", sixty="60", seventy="70", eighty="80"),
    **dict(ninety="90", hundred="100", thousand="1000", million="1e6", billion="1e9"),
    **dict(trillion="1e12", dozen="12", half="1/2", quarter="1/4", once="1", twice="2"),
    **dict(double="2", triple="3", single="1", couple="2", hundreds="100", thousands="1000"),
}
"""Words of numbers by the number."""

_MONTHS = """
january february march april may june july august september october november december
""".split()
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_TIME_WORDS = """
today tomorrow yesterday tonight now currently ago later soon recently early late last next
previous past coming upcoming current am pm noon midnight morning afternoon evening night dawn dusk
spring summer autumn fall winter christmas easter halloween thanksgiving ramadan eve weekend
weekday day week month quarter year decade century season hour minute before after until till since
during q1 q2 q3 q4 daily weekly monthly yearly annually annual hourly nightly heute morgen gestern
""".split()

TIMES: Mapping[str, str] = {
    **{word: word for word in _TIME_WORDS},
    **{f"{word}s": word for word in _TIME_WORDS},
    **{day: day for day in _DAYS},
    **{f"{day}s": day for day in _DAYS},
    **{day[:3]: day for day in _DAYS if day not in ("saturday", "sunday")},
    **dict(tues="tuesday", thur="thursday", thurs="thursday"),
    **{month: month for month in _MONTHS if month not in ("may", "march")},
    **{month[:3]: month for month in _MONTHS if month not in ("may", "march")},
    "sept": "september",
}
"""Words that say when, each by one of its forms."""

_UNITS = """
kg kilo kilogram kilogramme | g gram gramme | mg milligram | µg microgram mcg | t ton tonne
| lb pound lbs | oz ounce | km kilometre kilometer | m metre meter | cm centimetre centimeter
| mm millimetre millimeter | mi mile | yd yard | ft foot feet | in inch inches | nm nanometre
| l litre liter | ml millilitre milliliter | gal gallon | pint | cup | tbsp tablespoon
| tsp teaspoon | s sec second | ms millisecond | min minute | h hr hour | celsius | fahrenheit
| kelvin | usd dollar | eur euro | gbp | yen jpy | franc chf | rupee inr | cent | percent
| kb kilobyte | mb megabyte | gb gigabyte | tb terabyte | kbit | mbit | gbit | byte | bit | watt
| kw kilowatt | kwh | mwh | volt | ampere amp | hz hertz | khz | mhz | ghz | calorie kcal | joule
| mph | kmh kph | acre | hectare | bar | psi | degree | radian | knot | stone | barrel
"""

SHORT_UNIT_CHARS = 3
"""So short a sign is a unit after a number only."""


def _forms(group: str) -> Mapping[str, str]:
    names = group.split()
    plural = {f"{name}s": names[0] for name in names if len(name) > SHORT_UNIT_CHARS}
    return {**plural, **{name: names[0] for name in names}}


UNITS: Mapping[str, str] = {
    form: unit for group in _UNITS.split("|") for form, unit in _forms(group).items()
}
"""Units by the first of their names."""
