"""What the arguments of paired calls come to: figures, words, and the differences themselves."""

from msgspec import Struct

from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.align import Alignment
from toolgauge.score.arguments import ArgumentComparer, Figures
from toolgauge.score.compare import describe
from toolgauge.score.sides import Sides
from toolgauge.score.summary import counts, cut_short_note, greedy_note, leftovers

_MAX_DIFFERENCES = 20
_DESCRIBED = 4


class Report(Struct, frozen=True, kw_only=True):
    """`notes` hold no values; `parts` are recall and precision of arguments, counts of unexpected ones and of calls."""

    notes: tuple[str, ...]
    parts: dict[str, float]
    differences: tuple[Difference, ...]


def report(comparer: ArgumentComparer, alignment: Alignment) -> Report:
    """Look at the arguments of all pairs; those of expected calls that were not made count as not met."""
    sides = comparer.sides
    differences: list[Difference] = []
    figures = Figures(expected=sum(len(sides.slot_arguments[slot] or ()) for slot in alignment.missing))
    for pair in alignment.pairs:
        equal = comparer.equal_arguments(pair.expected, pair.actual)
        if equal is not None:
            figures.add_equal(equal)
            continue
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        agreement = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(agreement)
        differences += agreement.differences
    notes = [describe(difference) for difference in differences[:_DESCRIBED]]
    if len(differences) > _DESCRIBED:
        notes.append(f"{len(differences) - _DESCRIBED} more differences")
    return Report(
        notes=(*notes, *leftovers(sides, alignment), *greedy_note(alignment), *cut_short_note(comparer)),
        parts={**figures.parts(), **counts(alignment)},
        differences=(*differences, *_missing(sides, alignment))[:_MAX_DIFFERENCES],
    )


def _missing(sides: Sides, alignment: Alignment) -> list[Difference]:
    slots = (sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES])
    return [Difference(where=slot.name, rule="missing call", expected=Side(value=slot.args)) for slot in slots]
