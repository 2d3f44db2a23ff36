"""Names of one tool: those that servers, gateways and providers' limits make of it, and those of other tools."""

from tests.rows import each_row
from toolgauge.model.names import is_same_tool, known_as

CUT = "mcp_customer_relationship_management_production_find_order_by_re"
HASHED = "mcp_customer_relationship_management_productio_find_ord_a1b2c3d4"
MIDDLE = "customer_relationship_manage___rder_by_its_reference_number_now"
SAME = [
    ("mcp__crm__find_order", "find_order"),
    ("mcp_crm_find_order", "find_order"),
    ("crm-find_order", "find_order"),
    ("crm.find_order", "find_order"),
    ("crm:find_order", "find_order"),
    ("crm.find_order", "crm_find_order"),
    ("größe_suchen", "gr__e_suchen"),
    ("mcp__crm__查询", "查询"),
    (CUT, "find_order_by_reference_number"),
    (CUT, "mcp_customer_relationship_management_production_find_order_by_reference_number"),
    (HASHED, "find_order_by_reference_number"),
    (MIDDLE, "find_the_customers_order_by_its_reference_number_now"),
]
OTHERS = [
    ("crm__find", "shop__find"),
    ("get_user", "user"),
    ("find_order", "find_orders"),
    ("research", "search"),
    ("", "search"),
    ("search_", ""),
    ("查询", "订单"),
    (CUT, "cancel_order"),
    ("x" * 300, "y" + "x" * 299),
]


@each_row(("one", "other"), SAME)
def test_names_of_one_tool(one: str, other: str):
    assert is_same_tool(one, other)
    assert is_same_tool(other, one)
    assert (known_as(one, ["cancel", other]), known_as(other, [one])) == (other, one)


@each_row(("one", "other"), OTHERS)
def test_names_of_two_tools(one: str, other: str):
    assert not is_same_tool(one, other)
    assert not is_same_tool(other, one)
    assert (known_as(one, [other]), known_as(other, [one])) == (None, None)


def test_a_single_underscore_ends_a_prefix_where_more_than_the_names_speaks_for_it():
    assert is_same_tool("crm_find_order", "find_order", loosely=True)
    assert not is_same_tool("crm_find_order", "find_order")


def test_what_a_model_writes_in_other_letters_is_no_tool_on_offer():
    assert is_same_tool("Search", "search")
    assert known_as("Search", ["search"]) is None
