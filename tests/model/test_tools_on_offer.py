"""What follows from an offer of tools is found once, and kept with the offer alone."""

from copy import copy, deepcopy

from toolgauge.model.observations import NO_TOOLS, ToolDefinition, Tools

FIND, STOP = ToolDefinition(name="find"), ToolDefinition(name="stop")


def test_a_question_is_asked_once_an_offer():
    asked: list[Tools] = []

    def count(tools: Tools) -> int:
        asked.append(tools)
        return len(tools)

    offer, other = Tools((FIND, STOP)), Tools((FIND, STOP))
    assert [offer.once(count), offer.once(count), other.once(count)] == [2, 2, 2]
    assert [one is each for one, each in zip(asked, (offer, other), strict=True)] == [True, True]


def test_an_offer_is_equal_to_its_tools_and_the_first_of_a_name_counts():
    again = ToolDefinition(name="find", description="again")
    offer = Tools.of((FIND, STOP, again))
    assert offer == (FIND, STOP, again)
    assert offer.names == ("find", "stop", "find")
    assert dict(offer.by_name) == {"find": FIND, "stop": STOP}
    assert Tools.of(offer) is offer
    assert Tools.of(None) is Tools.of(()) is NO_TOOLS


def test_copies_hold_the_tools_alone():
    offer = Tools((FIND,))
    offer.once(len)
    for copied in (deepcopy(offer), copy(offer)):
        assert (type(copied), copied) == (tuple, (FIND,))
