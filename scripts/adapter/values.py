"""Values that phrasings are filled with: written by hand, or drawn by rule from a seed.

Every pool is cut in two by a hash, so that a value of the training domains never stands in a test.
"""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Literal

Side = Literal["train", "held-out"]
"""Which half of every pool is used: domains for training see one, validation and test the other."""

_WORDS: Mapping[str, str] = {
    "room": """kitchen|bathroom|living room|bedroom|hallway|attic|cellar|garage|study|nursery
        |guest room|dining room|laundry|balcony|office|pantry|library|studio
        |conservatory|workshop""",
    "city": """Oslo|Lisbon|Kraków|Nairobi|Osaka|São Paulo|Zürich|Montréal|Hanoi|Athens|Bogotá|Leeds
        |Göteborg|Tromsø|Reykjavík|Çeşme|Kraljevo|Jaipur|Accra|Lyon|Ghent|Porto|Tampere|Izmir|Busan
        |Cork|Graz|Malmö|Vilnius|Riga|Seville|Naples|Perth|Quito|Lima|Dakar|Cairo|Haifa|Pune|Hobart""",
    "country": """Norway|Portugal|Kenya|Japan|Brazil|Ghana|Vietnam|Peru|Iceland|Türkiye|Canada
        |India|Poland|Finland|Chile|Morocco|Ireland|Greece|Nepal|Austria""",
    "street": """12 Mill Lane|8 Rue des Lilas|Hauptstraße 41|27 Ocean Drive|Via Garibaldi 3
        |19 Elm Street|Calle Mayor 77|5 Kungsgatan|Ulica Długa 14|301 Baker Street|6 Chapel Hill
        |88 Maple Avenue|Rua Augusta 210|Lindenweg 9|44 Harbour Road|2 Station Square|15 King Street
        |Storgata 33|70 Canal Street|Plac Nowy 1|9 Orchard Close|23 Abbey Road""",
    "person": """Anna Keller|Ravi Sharma|Mei Tanaka|José Álvarez|Björn Dahl|Fatima Haddad|Liam Byrne
        |Zoë Martin|Olu Adeyemi|Søren Holm|Ngọc Trần|Priya Nair|Tom Fischer|Chiara Rossi|Ivan Petrov
        |Amina Diallo|Kenji Mori|Sara Lind|Mateo Ruiz|Ewa Nowak|Dilan Öztürk|Noor Rahman
        |Hugo Blanc
        |Grace Otieno|Leila Farsi|Jan de Vries|Aoife Kelly|Park Ji-woo|Łukasz Zieliński
        |Rosa Costa""",
    "last_name": """Keller|Sharma|Tanaka|Álvarez|Dahl|Haddad|Byrne|Martin|Adeyemi|Holm|Nair|Rossi
        |Petrov|Diallo|Mori|Lind|Ruiz|Nowak|Öztürk|Rahman|O'Neill|de Vries|Kelly|Zieliński|Costa""",
    "pet": """Luna|Rex|Mochi|Biscuit|Pepper|Whiskers|Bruno|Nala|Ziggy|Tofu|Clover|Sultan|Maple
        |Pixel|Ginger|Odin|Suki|Bagel|Comet|Frida""",
    "song": """Silver Morning|Paper Boats|Over the Ridge|Nine Lanterns|Slow River|Hometown Radio
        |Winter Coat|Blue Staircase|The Long Way|Salt and Honey|Glass Garden|Midnight Tram
        |Yellow Door|Falling Upward|Two Suitcases|Copper Sky|Last Ferry|Café Lumière|Echo Valley
        |Ten Thousand Steps""",
    "film": """The Lighthouse Keeper|Northern Signal|Seven Winters|A Borrowed House|Red Clay
        |The Quiet Engine|Moonfall Harbor|Tango for Three|The Glassmaker|Paper Kingdom|Low Tide
        |Beyond the Orchard|Static|The Ninth Passenger|Ember Road|Small Hours|Violet Hour
        |The Map Thief|Granite|Summer of Wolves""",
    "book": """The Salt Path|A Field of Clocks|Night Botanist|The Copper Bridge|Letters to Ada
        |The Orchard Wall|Blue Meridian|House of Maps|The Tin Forest|Winter Grammar
        |The Last Cartographer|Sunflower Algebra|Small Fires|The Weaver's Sons|Harbour Lights
        |The Ninth Door
        |Portrait of a Fisherman|Three Herons|The Ivory Gate|Still Life with Pears""",
    "quoted": """Sunday mix|Road trip|Budget 2026|Weekly review|Summer in Sicily|Half marathon
        |Light and Shadow|Family dinner|Rent May|Team lunch|Book club|Deep focus|Old friends
        |Spring clean|Ideas for Ada|Science Hour|Garden plans|Sales kickoff|Thank you|The Long Table
        |Birthday surprise|Space Monday|Code and Coffee|First draft|Night shift|Project Heron""",
    "event": """dentist|yoga class|lunch with Ravi|project review|parent evening|piano lesson
        |haircut|team standup|car inspection|dinner at Rosa's|tax deadline|football training
        |flight to Porto|book club|blood test|quarterly planning|house viewing|choir practice
        |driving test|school play""",
    "dish": """pancakes|lentil soup|pad thai|lasagne|risotto|chicken curry|tacos|ramen|paella
        |vegetable stew|apple pie|falafel|dumplings|shakshuka|goulash|fish pie|crème brûlée|sushi
        |quiche|gnocchi|banana bread|pho""",
    "grocery": """milk|eggs|butter|rice|apples|tomatoes|olive oil|coffee|bananas|flour|spinach
        |cheese|oat flakes|lemons|carrots|yoghurt|tofu|chickpeas|mushrooms|ginger|honey|potatoes
        |salmon|bread|red lentils|onions""",
    "color": """red|blue|green|orange|purple|turquoise|warm white|pink|yellow|violet|amber|teal
        |crimson|lime""",
    "genre": """jazz|folk|techno|blues|samba|rock|opera|hip hop|soul|ambient|punk|reggae|country
        |funk""",
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "month": """January|February|March|April|May|June|July|August|September|October|November
        |December""",
    "language": """Spanish|German|Japanese|Swahili|Portuguese|Korean|Polish|Hindi|Turkish|Dutch
        |Finnish|Arabic|French|Greek""",
    "currency": "EUR|USD|JPY|INR|GBP|CHF|SEK|BRL|KES|KRW|PLN|TRY",
    "cuisine": """Thai|Italian|Ethiopian|Mexican|Lebanese|Japanese|Greek|Indian|Peruvian|Polish
        |Vietnamese|Turkish""",
    "shop": """Café Ösel|The Blue Fork|Bella Vista|Green Corner|Old Mill Inn|Hotel Aurora|Nordlicht
        |Casa Verde|Harbour House|Sakura Garden|The Copper Pot|Lindenhof|Riverside Works|Maple & Co
        |Zephyr Ltd|Atlas Supplies|Bright Energy|Stone Bakery|Tallinn Street Market|Pico Labs""",
    "product": """desk lamp|router|coffee grinder|headset|office chair|water filter|monitor|drill
        |bike light|keyboard|air purifier|tent|tablet|sewing machine|projector|toaster""",
    "project": """Heron|Atlas|Blue Door|Quartz|Nimbus|Orchard|Polaris|Tundra|Saffron|Kestrel
        |Lighthouse|Pebble""",
    "job": """nurse|data analyst|carpenter|pastry chef|electrician|translator|teacher|welder
        |pharmacist|gardener|bus driver|architect""",
    "subject": """maths|history|chemistry|geography|music|biology|physics|art|Latin|economics
        |computing|sport""",
    "service": """billing-api|auth|search-indexer|mailer|postgres|image-resizer|gateway|scheduler
        |redis|report-worker|webhooks|frontend""",
    "host": """web-01|db-3|cache-eu-2|node17|build-agent-4|edge.fra|staging|prod-api-2|printer-2f
        |worker-09|gpu-1|backup-west""",
    "branch": """main|develop|feature/login|fix/null-pointer|release-2.4|hotfix/tax|spike/cache
        |feature/dark-mode|docs/readme|chore/deps|release-3.0|fix/timezone""",
    "folder": """Inbox|Archive|Receipts|Travel|Spam|Projects|Family|Newsletters|Taxes|Drafts
        |Clients|School""",
    "file": """beach_2024.jpg|IMG_0412.png|sunset-03.jpeg|DSC_7781.jpg|passport.png|garden.heic
        |scan_19.tif|IMG-20250711.jpg|mountain.webp|cake.png|P1010034.jpg|portrait_b.jpg""",
    "document": """report.pdf|invoice_april.pdf|cv-en.docx|slides_v3.pptx|contract.pdf|map.png
        |minutes-0412.odt|thesis_final.pdf|budget.xlsx|flyer.svg|letter.txt|boarding-pass.pdf""",
    "tag": """budget|holiday|recipes|ideas|passwords|garden|bicycle|insulin|solar panels|chess
        |astronomy|marathon|tax|knitting|robotics|wedding|renovation|birds""",
    "animal": """dog|cat|horse|sheep|owl|fox|cow|goat|deer|rabbit|heron|hedgehog|pony|goose""",
    "plant": """basil|lavender|tomato|oak|courgette|mint|sunflower|rose|fern|radish|maple|pepper
        |beetroot|thyme""",
    "garden_zone": """front yard|herb bed|orchard|north meadow|greenhouse|back garden|driveway
        |rose bed|east field|terrace|vegetable patch|pond side""",
    "game": """chess|Go|backgammon|rummy|dominoes|checkers|hearts|Scrabble|poker|mahjong""",
    "screen": """kitchen tablet|living room TV|projector|bedroom TV|laptop|phone|office display
        |cinema wall""",
    "housekeeping": """towels|fresh sheets|cleaning|water|coffee|pillows|soap|a hair dryer|slippers
        |tea""",
    "hazard": "storm|flood|heat|frost|avalanche|hail|fog|thunderstorm|drought|wind",
    "equipment": """projector|whiteboard|microphone|video camera|flip chart|speakers|screen|laptop
        |air conditioner|phone""",
    "medicine": """ibuprofen|metformin|amoxicillin|vitamin D|atorvastatin|paracetamol|cetirizine
        |omeprazole|aspirin|insulin glargine|salbutamol|magnesium""",
    "road": "A7|M25|Route 66|E18|I-90|Ring Road|B96|N12|Highway 1|A1|E4|Coastal Road",
    "sentence": """The meeting moved to noon|Bring the blue folder|I will be ten minutes late
        |Water the plants on Friday|The code is under the mat|Happy birthday, see you soon
        |Please call the landlord|The screen stays black after the update|Buy stamps and envelopes
        |We won the second match|The left wheel squeaks|Do not forget the umbrella
        |Read chapter four|Dinner is at my place|The battery dies after an hour
        |It was slow but beautiful|Back on the twelfth|The lid was cracked|Solve problems 3 to 9
        |Ask Mei for the keys|Thanks for everything|The train leaves without us
        |Keep it away from the light|Where is the nearest pharmacy|A quiet place by the lake
        |Nothing works since this morning|Great with a bit more salt|I love this song""",
}


_INVENTED = {
    "person": 2,
    "last_name": 1,
    "pet": 1,
    "shop": 2,
    "song": 2,
    "film": 3,
    "book": 3,
    "quoted": 2,
    "city": 1,
    "tag": 1,
    "project": 1,
    "medicine": 1,
    "product": 1,
}
"""Pools whose values are sometimes made up, of so many words: nobody can know those by heart."""


def choose(pool: str, side: Side, rng: random.Random) -> str:
    """A value of the pool. KeyError for a pool that does not exist."""
    if pool in _RULES:
        return _RULES[pool](rng)
    if pool in _INVENTED and rng.random() < 0.35:
        return " ".join(_invented(rng) for _ in range(_INVENTED[pool]))
    if pool == "sentence" and rng.random() < 0.4:
        return _sentence(side, rng)
    return rng.choice(_halves(pool)[side])


def pools() -> frozenset[str]:
    """Names of all pools."""
    return frozenset(_WORDS) | frozenset(_RULES)


def _halves(pool: str) -> dict[Side, list[str]]:
    words = [" ".join(word.split()) for word in _WORDS[pool].split("|")]
    if pool in {"weekday", "month", "currency", "color", "language"}:
        return {"train": words, "held-out": words}
    first = [word for word in words if hashlib.sha256(word.encode()).digest()[0] % 3]
    return {"train": first, "held-out": [word for word in words if word not in first]}


def _invented(rng: random.Random) -> str:
    starts = (
        "Ba",
        "Ke",
        "Mi",
        "Tor",
        "Vel",
        "Sha",
        "Lu",
        "Dri",
        "Qua",
        "Ze",
        "Ny",
        "Cor",
        "Fa",
        "Wi",
        "Ja",
    )
    middles = ("", "ra", "li", "mon", "ve", "du", "sse", "ko", "na", "thi", "")
    ends = ("n", "k", "la", "ro", "th", "s", "ne", "va", "x", "do", "rt", "é", "ø", "ün", "ić")
    return rng.choice(starts) + rng.choice(middles) + rng.choice(ends)


def _sentence(side: Side, rng: random.Random) -> str:
    who = rng.choice(
        ("The neighbor", "My sister", "Our team", "The doctor", "She", "Somebody", "Uncle")
    )
    does = rng.choice(("took", "lost", "found", "needs", "sold", "painted", "forgot", "returned"))
    what = rng.choice(_halves("product")[side])
    when = rng.choice(
        ("yesterday", "on Friday", "again", "at noon", "for free", "by mistake", "twice")
    )
    return f"{who} {does} the {what} {when}"


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(count))


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(string.ascii_uppercase) for _ in range(count))


def _short_id(rng: random.Random) -> str:
    return rng.choice(
        [
            lambda: _digits(rng, rng.randint(2, 5)),
            lambda: f"{_letters(rng, 1)}{_digits(rng, 3)}",
            lambda: f"{_letters(rng, 2)}-{_digits(rng, 2)}",
            lambda: f"{_letters(rng, 2)}{_digits(rng, 2)}",
            lambda: f"{rng.choice(['note', 'ev', 'ref', 'item', 'x'])}-{_digits(rng, 3)}",
            lambda: f"{_digits(rng, 2)}{_letters(rng, 1)}",
        ]
    )()


def _long_id(rng: random.Random) -> str:
    return rng.choice(
        [
            lambda: _digits(rng, rng.randint(6, 12)),
            lambda: f"{_letters(rng, 2)}{_digits(rng, 9)}{_letters(rng, 2)}",
            lambda: f"{_digits(rng, 4)}-{_digits(rng, 4)}",
            lambda: f"{_letters(rng, 3)}-{_digits(rng, 4)}-{_letters(rng, 1)}",
            lambda: f"1Z{_letters(rng, 1)}{_digits(rng, 6)}",
            lambda: f"{_digits(rng, 3)}.{_digits(rng, 3)}.{_digits(rng, 2)}",
        ]
    )()


def _order_id(rng: random.Random) -> str:
    return rng.choice(
        [
            lambda: _digits(rng, rng.randint(3, 6)),
            lambda: f"#{_digits(rng, 4)}",
            lambda: f"A{_digits(rng, 2)}-{_digits(rng, 3)}",
            lambda: f"order-{_letters(rng, 2).lower()}{_digits(rng, 2)}",
            lambda: f"{_letters(rng, 2)}{_digits(rng, 1)}",
            lambda: f"ORD-2026-{_digits(rng, 4)}",
            lambda: f"{_digits(rng, 3)}/{_letters(rng, 2)}",
        ]
    )()


def _date(rng: random.Random) -> str:
    return (date(2026, 1, 1) + timedelta(days=rng.randrange(700))).isoformat()


def _clock(rng: random.Random) -> str:
    return f"{rng.randrange(24):02d}:{rng.choice([0, 5, 10, 15, 20, 30, 40, 45, 50, 55]):02d}"


def _phone(rng: random.Random) -> str:
    return rng.choice(
        [
            lambda: f"+{rng.randint(1, 98)} {_digits(rng, 3)} {_digits(rng, 6)}",
            lambda: f"0{_digits(rng, 3)}-{_digits(rng, 5)}",
            lambda: f"({_digits(rng, 3)}) {_digits(rng, 3)}-{_digits(rng, 4)}",
            lambda: _digits(rng, 9),
        ]
    )()


def _email(rng: random.Random) -> str:
    name = rng.choice(["anna", "ravi.s", "mei_t", "info", "j.alvarez", "bjorn", "sales", "tom42"])
    host = rng.choice(["example.com", "example.org", "mail.example", "post.example.net"])
    return f"{name}@{host}"


def _url(rng: random.Random) -> str:
    host = rng.choice(["example.com", "www.example.org", "x.example"])
    path = rng.choice(["a", "item", "feed.xml", "news/today", "s", "p"])
    return f"https://{host}/{path}/{_short_id(rng)}"


_RULES: Mapping[str, Callable[[random.Random], str]] = {
    "short_id": _short_id,
    "long_id": _long_id,
    "order_id": _order_id,
    "date": _date,
    "clock": _clock,
    "phone": _phone,
    "email": _email,
    "url": _url,
    "four_digits": lambda rng: _digits(rng, 4),
    "postal_code": lambda rng: rng.choice(
        [
            _digits(rng, 5),
            f"{_letters(rng, 2)}{_digits(rng, 1)} {_digits(rng, 1)}{_letters(rng, 2)}",
        ]
    ),
    "room_number": lambda rng: rng.choice(
        [
            _digits(rng, 3),
            f"{_letters(rng, 1)}{_digits(rng, 2)}",
            f"{_digits(rng, 1)}.{_digits(rng, 2)}",
        ]
    ),
    "plate": lambda rng: f"{_letters(rng, 2)} {_digits(rng, 3)} {_letters(rng, 1)}",
    "ticket": lambda rng: (
        f"{rng.choice(['SUP', 'BUG', 'HELP', 'OPS'])}-{_digits(rng, rng.randint(2, 5))}"
    ),
    "hash": lambda rng: "".join(rng.choice("0123456789abcdef") for _ in range(7)),
    "sku": lambda rng: f"{_letters(rng, 3)}-{_digits(rng, 3)}-{_letters(rng, 1)}{_digits(rng, 1)}",
    "invoice": lambda rng: (
        f"{rng.choice(['INV', 'RE', 'F'])}-{rng.randint(2023, 2026)}-{_digits(rng, 4)}"
    ),
    "iban": lambda rng: (
        f"{_letters(rng, 2)}{_digits(rng, 2)} {_digits(rng, 4)} {_digits(rng, 4)} {_digits(rng, 4)}"
    ),
    "isbn": lambda rng: (
        f"978-{_digits(rng, 1)}-{_digits(rng, 4)}-{_digits(rng, 4)}-{_digits(rng, 1)}"
    ),
    "ip": lambda rng: ".".join(str(rng.randint(1, 254)) for _ in range(4)),
    "train_number": lambda rng: (
        f"{rng.choice(['ICE', 'RE', 'IC', 'TGV', 'S'])} {_digits(rng, rng.randint(1, 4))}"
    ),
    "school_class": lambda rng: f"{rng.randint(1, 12)}{rng.choice('abcde')}",
    "airport": lambda rng: _letters(rng, 3),
    "flight": lambda rng: f"{_letters(rng, 2)}{_digits(rng, rng.randint(2, 4))}",
    "booking_reference": lambda rng: "".join(
        rng.choice(string.ascii_uppercase + "23456789") for _ in range(6)
    ),
}
