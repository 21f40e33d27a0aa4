"""Words that guards and readings know. English for the most part: of what they don't know they take
every word for one that matters."""

from collections.abc import Mapping


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """One phrase between two bars."""
    return tuple(tuple(part.split()) for part in text.split("|") if part.strip())


CONTRACTIONS: Mapping[str, list[str]] = {
    "can't": ["can", "not"],
    "won't": ["will", "not"],
    "shan't": ["shall", "not"],
    "cannot": ["can", "not"],
    "let's": ["let", "us"],
    "im": ["i", "am"],
    "dont": ["do", "not"],
    "doesnt": ["does", "not"],
    "isnt": ["is", "not"],
    "cant": ["can", "not"],
    "whats": ["what", "is"],
    "wheres": ["where", "is"],
    **{
        f"{word}'s": [word, "is"]
        for word in "what where when who how why it that there here he she".split()
    },
}

FRAMES = _phrases(
    "please | hello | hi | hey | thanks | thank you | thanks in advance | quick question | kindly"
    "| can you | could you | would you | will you | are you able to | any help is welcome"
    "| can you tell me | could you tell me | can you explain | could you explain"
    "| can you please tell me | could you please tell me | can you show me | can you help me"
    "| tell me | tell us | show me | give me | let me know | explain | please explain"
    "| explain to me | i want to know | i would like to know | i d like to know | i like to know"
    "| i wonder | i am wondering | i was wondering | i want to | i would like to | i like to"
    "| i need to know | describe | define | do you know | would you say | would you say that"
    "| is it true that"
)
"""What surrounds a question and asks nothing."""

PHRASES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    **{
        phrase: ("how",)
        for phrase in _phrases(
            "what is the way to | what is the best way to | which is the best way to"
            "| what are the steps to | what do i need to do to | what do i have to do to"
            "| what should i do to | what can i do to | what do i do to | how to | how do i"
            "| how can i | how should i | how do you | how can you | how can we | how do we"
            "| what are ways to | what is a way to | what are the steps for | how does one"
            "| how is it possible to | tell me how to | show me how to | how can one"
        )
    },
    **{
        phrase: ("why",)
        for phrase in _phrases(
            "how come | what is the reason that | for what reason | for what reasons"
            "| what is the reason why | for which reason | what are reasons to"
            "| what are the reasons to | what makes | what are reasons for | give me reasons for"
            "| give me reasons to | what are the reasons for"
        )
    },
    **{phrase: ("about",) for phrase in _phrases("regarding | concerning | with regard to")},
    **{
        (*what, way, "way", "to"): ("how", pace)
        for what in _phrases("what is the | which is the | what is a | which is a")
        for way, pace in (("fastest", "fast"), ("quickest", "fast"), ("easiest", "easy"))
    },
    ("how", "much", "does"): ("what", "does"),
    ("how", "much", "do"): ("what", "do"),
    ("list", "the"): ("the",),
    ("is", "used", "in"): ("in",),
    ("used", "in"): ("in",),
    ("capital", "city"): ("capital",),
    ("able", "to"): ("can",),
    ("allowed", "to"): ("may",),
    ("is", "it", "possible", "to"): ("can",),
    ("have", "to"): ("must",),
    ("has", "to"): ("must",),
    ("need", "to"): ("must",),
    ("required", "to"): ("must",),
    ("instead", "of"): ("instead",),
    ("rather", "than"): ("instead",),
    ("other", "than"): ("except",),
    ("apart", "from"): ("except",),
    ("aside", "from"): ("except",),
    ("anything", "but"): ("except",),
    ("everything", "but"): ("except",),
    ("all", "but"): ("except",),
    ("no", "one"): ("nobody",),
    ("no", "longer"): ("not", "longer"),
    ("tell", "me", "if"): ("whether",),
    ("tell", "me", "whether"): ("whether",),
    ("i", "want", "to", "know", "whether"): ("whether",),
    ("i", "want", "to", "know", "if"): ("whether",),
}
"""What is said in several ways, and the one it is taken for."""

FUNCTION_WORDS = frozenset(
    """
    a an the this that these those it its of in on at by for with about as to from into than and or
    be am is are being do does doing so such there here then also just very really exactly actually
    if whether would will shall may might can could should have has what which that ever
    i you we me us one my your his her their our he she they him them mine yours
    who whom whose when where why how was were did had been must not
    say tell know want like need let get mean meaning
    """.split()
) - frozenset(("mean", "meaning", "get", "need", "like"))
"""Words that other guards look at, or that say nothing alone."""

PERSONS: Mapping[str, str] = {
    **dict.fromkeys(("my", "mine", "our", "ours"), "my"),
    **dict.fromkeys(("your", "yours"), "your"),
    **dict.fromkeys(("he", "him", "his", "himself"), "he"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "she"),
    **dict.fromkeys(("they", "them", "their", "theirs"), "they"),
    **dict.fromkeys(("i", "me", "we", "us", "one"), "i"),
    "you": "you",
}

_SYNONYMS = """
buy purchase | big large huge | small little tiny | fast quick rapid swift | begin start commence
| remove delete erase uninstall | fix repair mend | cost price | movie film | doctor physician
| car automobile | fridge refrigerator | change modify alter | benefit advantage | hard difficult
| easy simple | sick ill | choose select pick | recommend suggest | latest newest | phone telephone
| photo photograph | email mail | show display | help assist | talk speak | answer reply
| job occupation | kid child | shop store | country nation | holiday vacation | flat apartment
| lift elevator | autumn fall | lawyer attorney | wrong incorrect | clever smart | ask enquire
| obtain acquire | sum total | permit allow | necessary needed | happen occur | complete finish
| mistake error | rich wealthy | shut close | trip journey | usually normally | sample example
| parcel package | summary summarise summarize | colour color | organise organize | licence license
| centre center | favourite favorite | litre liter | metre meter | programme program
"""

SYNONYMS: Mapping[str, str] = {
    word: group.split()[0] for group in _SYNONYMS.split("|") for word in group.split()
}
"""Words by the first of those that mean the same nearly everywhere."""

IRREGULAR: Mapping[str, str] = {
    "broke": "break", "broken": "break", "bought": "buy", "sold": "sell", "went": "go",
    "gone": "go", "made": "make", "took": "take", "taken": "take", "wrote": "write",
    "written": "write", "ran": "run", "sent": "send", "lost": "lose", "found": "find",
    "kept": "keep", "paid": "pay", "built": "build", "children": "child", "people": "person",
    "mice": "mouse", "feet": "foot", "teeth": "tooth", "men": "man", "women": "woman",
    "knew": "know", "known": "know", "said": "say", "told": "tell", "got": "get", "ate": "eat",
    "eaten": "eat", "drove": "drive", "driven": "drive", "gave": "give", "given": "give",
    "came": "come", "saw": "see", "seen": "see", "thought": "think", "taught": "teach",
    "slowly": "slow", "quickly": "quick", "easily": "easy", "running": "run",
}  # fmt: skip

KEPT_WHOLE = frozenset(
    """
    news lens series species physics maths mathematics politics economics statistics always bus gas
    this is was has does its us plus minus as during morning evening nothing something anything
    everything thing king ring sing string spring bring wing red bed need feed seed speed indeed
    exceed hundred sacred naked wicked shed led fed ted wed united
    """.split()
)
"""Words that end like an inflected one and aren't."""
