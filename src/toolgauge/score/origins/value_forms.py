"""Normal forms in which a value of an argument and a text are compared: words, numbers, days and telephone numbers.

Case, spacing, punctuation, thousands separators, number words and date formats make no difference. All patterns are linear.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import date, timedelta
from itertools import filterfalse, repeat
from typing import TypeAlias

# A day as it is written: the year where there is one, month, day.
Day: TypeAlias = tuple[int | None, int, int]

# Between words as people write, part of one as ids, numbers, dates and addresses do.
_SOFT = b"-.,:/@+"
_KEPT = frozenset(b"_" + _SOFT)
_TABLE = bytes(code if code >= 128 or chr(code).isalnum() or code in _KEPT else 32 for code in range(256))
# Typographic marks, most of which are more than one byte long.
_MARKS = dict.fromkeys(
    map(
        ord,
        "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2010\u2011\u2012\u2013\u2014\u2022\u2026\u2192\u00b7\u00bf\u00a1"
        "\u3001\u3002\uff0c\uff1a\uff1b\uff08\uff09\u300c\u300d\u00a0\u20ac\u00a3\u00a5",
    ),
    " ",
)
# Letters that do not come apart, digits of other scripts, and characters without width.
_LETTERS: dict[int, str | None] = {
    **dict(zip(map(ord, "\u0142\u00f8\u0111\u0131\u0127"), "lodih", strict=True)),
    0xE6: "ae",
    0x153: "oe",
    0xFE: "th",
    0xF0: "d",
    **{zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50) for digit in range(10)},
    **dict.fromkeys((*range(0x300, 0x370), 0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)),
}
# Scripts that put no space between words, or glue endings to them: `\u6ce8\u65871234\u3092`.
_SCRIPTS = "[\u0370-\u1cff\u2e80-\ud7ff\uf900-\ufaff]"
_SCRIPT = re.compile(_SCRIPTS)
_SEAM = re.compile(f"(?<={_SCRIPTS})(?=[0-9a-z#])|(?<=[0-9a-z])(?={_SCRIPTS})")
# So much of a text shows its language.
_MAX_LANGUAGE = 2000
_LETTERS_ONLY = re.compile(rb"[a-z]+")
_ENGLISH = frozenset(b"the you your this that with and is was are it of to have my on at please".split())
_FOREIGN = frozenset(
    b"der das und ich bitte fur ein eine am im mit le la les des du et je pour un une el los las de por para con una che di per het een"
    b" voor op van og jeg til em uma nie na dla pro morgen demain manana domani amanha oggi hoy aujourd heute".split()
)
_AT_JOINTS, _AT_ALL_JOINTS = (
    bytes(32 if code in joints else code for code in range(256)) for joints in (b",:/@+", _SOFT)
)
SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_FORM = bytes(48 if 48 <= code <= 57 else 97 if 97 <= code <= 122 else code for code in range(256))
# Letters and at least two digits, as ids have, in at least five characters.
_FORM_OF_ID = re.compile(rb" (?=[^ 0]*+0[^ 0]*+0)(?=[^ a]*+a)([^ ]{5,}+)")
_DIGIT = re.compile(rb"\d")
# A run of short words ends at all other signs.
_AT_BREAKS = bytes(code if chr(code) in "abcdefghijklmnopqrstuvwxyz0123456789 .-" else 10 for code in range(256))
_SHORT_WORDS = re.compile(rb"(?<![a-z0-9])(?=[a-z .-]{0,15}\d)[a-z0-9]{1,4}(?:[ .-][a-z0-9]{1,4}){1,9}(?![a-z0-9])")
RUNS = re.compile(rb"\d+|\D+")
_ID_SIGN = re.compile(rb"[0-9_@]")
_NUMBER = re.compile(rb"[-+]?\d[\d,]*(?:\.\d+)?")
# As many languages write 1,234.50.
_WITH_COMMA = re.compile(rb"\d{1,3}(?:\.\d{3}){1,4},\d{1,2}")
# A number and its unit: `298k`, `10kg`, `1.5l`.
_MEASURED = re.compile(rb"(\d[\d,]{0,11}(?:\.\d{1,6})?)[a-z]{1,4}")
# `20%`, `20 percent`, `"discount_percent":20`, and fractions in words. `a third`, as `the third` is a place in a list.
_SHARE = re.compile(
    rb"(?<![\d.,])(\d{1,2}(?:\.\d{1,4})?) ?(?:%|(?:per ?cent|pct)\b)"
    rb"|(?:percent|percentage|pct)\"?[:=] ?(\d{1,2}(?:\.\d{1,4})?)(?![\d.])|\b(half|quarter)|\b(?:a|one|two)[ -](third)"
)
# One of these is in each.
_SIGNS_OF_SHARES = (b"%", b"cent", b"pct", b"half", b"quarter", b"third")
_FRACTIONS = {b"half": 1 / 2, b"third": 1 / 3, b"quarter": 1 / 4}
_MAX_FACTOR = 9
_FACTORS = (12, 24, 30, 60, 100, 1000, 3600, 0.01, 0.001)
_LARGEST_TERM = 1e7
_SCALE = 1000
_ROUNDING = 5.001  # A share of an amount is rounded to cents
# Longer ones are ids.
_MAX_NUMBER = 15
_LONGEST_WORD = 512
PHONE = re.compile(rb"\+?\d(?:[ ().-]{0,3}\d){6,14}")

_NAMES_OF_MONTHS = (
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep"
    "|october oct|november nov|december dec"
)
_MONTHS = {
    name.encode(): number for number, names in enumerate(_NAMES_OF_MONTHS.split("|"), 1) for name in names.split()
}
_MONTH = b"(" + b"|".join(sorted(_MONTHS, key=len, reverse=True)) + rb")\b\.?"
_YEAR = rb"(?:(?:,| of)? {0,2}(\d{4})\b)?"
_ORDINAL = rb"(\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR_FIRST = re.compile(rb"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
# `5/16/2024`, `16.05.24`; without a year only `5/16` and `16.5.`, as other forms are mostly ranges and decimals.
_YEAR_LAST = re.compile(
    rb"(?<![\d./-])(\d{1,2})(?:[-/.](\d{1,2})[-/.](\d{4}|\d{2})\b|/(\d{1,2})\b|\.(\d{1,2})\.(?!\d))"
)
# `may 16`, `may the 16th, 2024`, and the second day of `may 16-18`.
_UNTIL = rb"(?: {0,2}(?:-|to|and|through|until|/) {0,2}" + _ORDINAL + rb")?"
_MONTH_FIRST = re.compile(rb"\b" + _MONTH + rb" {0,2}(?:the )?" + _ORDINAL + _UNTIL + _YEAR)
_DAY_FIRST = re.compile(rb"\b" + _ORDINAL + rb"(?: of)? {0,2}" + _MONTH + _YEAR)
# A month without a day is from its first to its last.
_MONTH_ALONE = re.compile(
    rb"\b(?:in|by|until|till|during|since|before|after|for|from|of|late|early|this|next|last|to) "
    + _MONTH
    + rb"(?! {0,2}(?:the )?\d{1,2}(?!\d))"
    + _YEAR
)
_ENDS_OF_MONTH = (1, 28, 29, 30, 31)
# A day named by its distance: `tomorrow`, `next week`, `for 3 nights`.
RELATIVE_DAY = re.compile(
    rb"\b(?:today|tonight|"
    # A day without a month, and a time with a day of its own.
    rb"\d{1,2}(?:st|nd|rd|th)\b(?! {0,2}(?:of )?"
    + _MONTH
    + rb")|(?:first|second|third|[a-z]{3,8}th|twenty-[a-z]{4,7}|thirty-first) of|q[1-4]|(?:in|during|since|for|of) (?:19|20)\d\d"
    rb"|spring|summer|autumn|winter|fortnight|christmas|xmas|easter|thanksgiving|halloween|new year|holidays?"
    rb"|(?:end|beginning|start|middle|rest) of (?:the|this|next|last)|\d{1,2} ?[ap]m|noon|midnight|"
    rb"tomorrow|yesterday|now|asap|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day|same day"
    rb"|(?:next|this|following|coming|last|past|previous|earlier|later) (?:day|week|month|quarter|year|night|morning|evening)"
    rb"|(?:days?|weeks?|months?|years?|nights?) (?:later|earlier|before|after|ago|from|in|prior)"
    rb"|(?:\d{1,3}|a|one|two|three|four|five|six|seven|eight|nine|ten|few|couple of) (?:days?|weeks?|months?|nights?)"
    rb"|day (?:before|after))\b"
)

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORDS: dict[bytes, float] = {
    **{word.encode(): number for number, word in enumerate(_UNITS)},
    **{word.encode(): 20 + 10 * number for number, word in enumerate(_TENS)},
    **{
        f"{tens}-{unit}".encode(): 20 + 10 * number + digit
        for number, tens in enumerate(_TENS)
        for digit, unit in enumerate(_UNITS[1:10], 1)
    },
    b"hundred": 100,
    b"thousand": 1000,
    b"million": 1_000_000,
    b"dozen": 12,
    b"half": 0.5,
    b"quarter": 0.25,
}
_SCALES = {b"k": 1000.0, b"m": 1_000_000.0}


def folded(text: str) -> bytes:
    """Fold the case of plain letters; `words` and `plain` fold the rest, which takes long and is rarely asked for."""
    return text.encode("utf-8", "replace").lower()


def plain(content: bytes) -> bytes:
    """Fold case, width, accents and typographic marks of all letters."""
    if content.isascii():
        return content
    text = unicodedata.normalize("NFKD", _without_marks(content)).casefold()
    return unicodedata.normalize("NFC", text.translate(_LETTERS)).encode("utf-8", "replace")


def _without_marks(content: bytes) -> str:
    return content.decode("utf-8", "replace").translate(_MARKS)


def is_foreign(content: bytes) -> bool:
    """Return whether a folded text is likely in a language other than English, whose days and number words are not known."""
    words = frozenset(_LETTERS_ONLY.findall(plain(content[:_MAX_LANGUAGE])))
    if words & _ENGLISH:
        return False
    return not words.isdisjoint(_FOREIGN) or not _without_marks(content[:_MAX_LANGUAGE]).isascii()


def split_scripts(content: bytes) -> bytes:
    """Part words of plain letters and digits from words of other scripts."""
    return content if content.isascii() else _SEAM.sub(" ", content.decode("utf-8", "replace")).encode()


def has_other_script(content: bytes) -> bool:
    """Return whether a text has letters that names are spelled out of: `\u0418\u0432\u0430\u043d` is Ivan."""
    return not content.isascii() and _SCRIPT.search(content.decode("utf-8", "replace")) is not None


def words(content: bytes) -> set[bytes]:
    """Return the distinct words of folded text: as they are joined, and taken apart."""
    return _taken_apart(_plain_words(content, set(content.translate(_TABLE).split())))


def _plain_words(content: bytes, raw: set[bytes]) -> set[bytes]:
    if content.isascii():
        return raw
    special = set(filterfalse(bytes.isascii, raw))
    others = plain(b" ".join(special))
    return (raw - special).union(others.translate(_TABLE).split(), split_scripts(others).translate(_TABLE).split())


def _taken_apart(joined: Iterable[bytes]) -> set[bytes]:
    found = set(map(bytes.strip, joined, repeat(_SOFT)))
    if found and max(map(len, found)) > _LONGEST_WORD:
        found = {word for word in found if len(word) <= _LONGEST_WORD}
    # All of a text at once: word by word it takes four times as long. Letters and digits alone are one word.
    mixed = b" ".join(filterfalse(bytes.isalnum, found))
    found.update(mixed.translate(_AT_JOINTS).split(), mixed.translate(_AT_ALL_JOINTS).split())
    found.discard(b"")
    return found


def id_words(content: bytes) -> set[bytes]:
    """Return the words of folded text that may be or hold ids or numbers: with a digit, a joined name, an address."""
    # Most words have letters alone, and many come again.
    raw = set(filterfalse(bytes.isalpha, content.translate(_TABLE).split()))
    return set(filter(_ID_SIGN.search, _plain_words(content, raw)))


def ids(joined: Collection[bytes]) -> set[bytes]:
    """Return the possible ids or numbers of such words: each as it is joined, and taken apart."""
    found = _taken_apart(joined)
    if b"," in b"".join(joined):
        found.update([one.replace(b",", b"") for one in found if b"," in one])
    return set(filter(_ID_SIGN.search, filterfalse(bytes.isalpha, found)))


def form(word: bytes) -> bytes:
    """Return the form of a folded word: `aaa00a` for `zfa04y`."""
    return word.translate(_FORM)


def forms(words: Iterable[bytes]) -> set[bytes]:
    """Return the forms of folded words that have letters and at least two digits, as ids have."""
    return set(_FORM_OF_ID.findall(b" ".join((b"", *words)).translate(_FORM)))


def spelled(content: bytes) -> set[bytes]:
    """Return what people may mean by neighbouring short words of which one has a digit: `hat 765` is `hat765`."""
    found: set[bytes] = set()
    if _DIGIT.search(content) is None:
        return found
    parts = filter(_DIGIT.search, content.translate(_AT_BREAKS).split(b"\n"))
    for run in _SHORT_WORDS.findall(b"\n".join(parts)):
        words = re.findall(rb"[a-z0-9]+", run)
        found.update([b"".join(words[start : start + size]) for start in range(len(words)) for size in (2, 3)])
        found.add(b"".join([word for word in words if len(word) == 1]))
    return {one for one in found if _DIGIT.search(one) is not None}


def word(text: str) -> bytes | None:
    """Return the text as one word; `None` when it is not one."""
    parts = plain(folded(text)).translate(_TABLE).split()
    return (parts[0].strip(_SOFT) or None) if len(parts) == 1 else None


def parts(text: str) -> list[bytes]:
    """Return the words of a value in order, each as it is joined."""
    stripped = (part.strip(_SOFT) for part in split_scripts(plain(folded(text))).translate(_TABLE).split())
    return [part for part in stripped if part]


def pieces(joined: bytes) -> list[bytes]:
    """Take a joined word apart at every sign between letters and digits."""
    return [piece for piece in re.split(rb"[-_.,:/@+]", joined) if piece]


def number(joined: bytes) -> float | None:
    """Return the number that a word writes: in digits, with thousands separators, as a word, or in thousands (`5k`)."""
    named = _NUMBER_WORDS.get(joined)
    if named is not None or len(joined) > _MAX_NUMBER:
        return named
    scale = _SCALES.get(joined[-1:], 1.0)
    digits = joined if scale == 1.0 else joined[:-1]
    if _NUMBER.fullmatch(digits) is None:
        return None
    return float(digits.replace(b",", b"")) * scale


def numbers(found: Iterable[bytes]) -> Iterator[float]:
    """Yield the numbers among words."""
    for one in found:
        # Asked of every distinct word: most end in another letter.
        if one[0] <= 57 or one in _NUMBER_WORDS:
            value = number(one)
            if value is not None:
                yield value
            elif _WITH_COMMA.fullmatch(one) is not None:
                yield float(one.replace(b".", b"").replace(b",", b"."))
            measured = _MEASURED.fullmatch(one)
            if measured is not None:
                yield float(measured[1].replace(b",", b""))


def shares(content: bytes) -> tuple[float, ...]:
    """Return the percentages and fractions that a folded text names, each with what it leaves: `20%` is 0.2 and 0.8."""
    if not any(map(content.__contains__, _SIGNS_OF_SHARES)):
        return ()
    found = (
        _FRACTIONS.get(word or third) or float(before or after) / 100
        for before, after, word, third in _SHARE.findall(content)
    )
    return tuple(one for share in found if share for one in (share, 1 - share))


def is_computed(value: float, seen: Iterable[float], named_shares: Iterable[float]) -> bool:
    """Return whether a number is a sum, a difference, a multiple or one of the shares of other numbers."""
    # In whole thousandths: adding them is exact.
    terms = {round(one * _SCALE) for one in seen if 0 < abs(one) < _LARGEST_TERM}
    wanted = round(value * _SCALE)
    is_unit = any(round(value / factor * _SCALE) in terms for factor in _FACTORS)
    if is_unit or not terms.isdisjoint({wanted + term for term in terms}):
        return True
    parts = [wanted // factor for factor in range(1, _MAX_FACTOR + 1) if wanted % factor == 0]
    if any(part in terms or not terms.isdisjoint({part - term for term in terms}) for part in parts):
        return True
    ordered = sorted(terms)
    ends = (((wanted - _ROUNDING) / share, (wanted + _ROUNDING) / share) for share in set(named_shares))
    return any(bisect_left(ordered, low) < bisect_left(ordered, high) for low, high in ends)


def days(content: bytes) -> Iterator[Day]:
    """Yield the days that folded text names; both readings where either number may be the month."""
    for year, month, day in _dates(content):
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield year, month, day


def _dates(content: bytes) -> Iterator[Day]:
    for match in _YEAR_FIRST.finditer(content):
        yield int(match[1]), int(match[2]), int(match[3])
    for match in _YEAR_LAST.finditer(content):
        year = int(match[3]) if match[3] else None
        year = year + 2000 if year is not None and year < 100 else year
        one, other = int(match[1]), int(match[2] or match[4] or match[5])
        yield from ((year, one, other), (year, other, one))
    for match in _MONTH_FIRST.finditer(content):
        year, month = int(match[4]) if match[4] else None, _MONTHS[match[1]]
        yield from [(year, month, int(day)) for day in (match[2], match[3]) if day]
    for match in _MONTH_ALONE.finditer(content):
        year = int(match[2]) if match[2] else None
        yield from [(year, _MONTHS[match[1]], day) for day in _ENDS_OF_MONTH]
    for match in _DAY_FIRST.finditer(content):
        yield int(match[3]) if match[3] else None, _MONTHS[match[2]], int(match[1])


def neighbours(day: Day) -> Iterator[Day]:
    """Yield the days before and after, for what ends or begins at night."""
    year, month, number_of_day = day
    try:
        middle = date(2024 if year is None else year, month, number_of_day)
        for step in (-1, 1):
            other = middle + timedelta(days=step)
            yield (other.year if year is not None else None, other.month, other.day)
    except (ValueError, OverflowError):
        return


def digits_of(content: bytes) -> bytes:
    """Return the digits alone."""
    return bytes(code for code in content if 48 <= code <= 57)
