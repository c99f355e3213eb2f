"""Sessions in `shop-api`, the API of a small web shop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from demo_kit.story import (
    Command,
    Compaction,
    Delegate,
    Edit,
    Interruption,
    Pause,
    Prompt,
    Read,
    Reply,
    Report,
    Story,
    Write,
)

_SONNET = "claude-sonnet-4-5-20250929"
_OPUS = "claude-opus-4-1-20250805"
_HAIKU = "claude-haiku-4-5-20251001"

_CHECKOUT = """\
def checkout(cart: Cart, coupon: Coupon | None = None) -> Order:
    total = sum(line.price * line.quantity for line in cart.lines)
    largest = max(line.price for line in cart.lines)
    if coupon is not None:
        total = apply_coupon(total, largest, coupon)
    return Order(lines=cart.lines, total=total)
"""

EMPTY_CART = Story(
    key="shop/empty-cart",
    agent="claude",
    version="2.0.77",
    project="shop-api",
    branch="fix/empty-cart",
    start=datetime(2026, 10, 27, 8, 14, 2, tzinfo=UTC),
    model=_OPUS,
    tags=("bug", "checkout"),
    steps=(
        Prompt(
            "POST /checkout answers 500 when the cart is empty. It should be a 422 with a message. "
            "Find out why and fix it, with a test."
        ),
        Reply(
            "I'll reproduce it first.",
            thinking="A 500 means an unhandled exception. The checkout function probably takes the "
            "maximum of an empty sequence or divides by the number of lines.",
            tools=(
                Command(
                    "curl -s -o /dev/null -w '%{http_code}' -X POST localhost:8000/checkout "
                    "-d '{\"lines\": []}'",
                    "500",
                    "Post an empty cart",
                ),
                Read("shop/checkout.py", _CHECKOUT, first_line=21),
            ),
        ),
        Reply(
            "`max()` of an empty sequence raises ValueError before anything checks the cart. "
            "A test that shows it:",
            tools=(
                Write(
                    "tests/test_checkout_empty.py",
                    "def test_an_empty_cart_is_refused(client):\n"
                    '    answer = client.post("/checkout", json={"lines": []})\n'
                    "    assert answer.status_code == 422\n"
                    '    assert answer.json()["detail"] == "the cart is empty"\n',
                ),
                Command(
                    "pytest -q tests/test_checkout_empty.py",
                    "F                                                       [100%]\n"
                    "E       assert 500 == 422\n"
                    "FAILED tests/test_checkout_empty.py::test_an_empty_cart_is_refused\n"
                    "1 failed in 0.61s",
                    "Run the new test",
                    exit_code=1,
                    seconds=1.4,
                ),
            ),
        ),
        Reply(
            "It fails as expected. Now the fix: refuse the cart before computing anything.",
            tools=(
                Edit(
                    "shop/checkout.py",
                    "    total = sum(line.price * line.quantity for line in cart.lines)\n",
                    "    if not cart.lines:\n"
                    '        raise Refused("the cart is empty")\n'
                    "    total = sum(line.price * line.quantity for line in cart.lines)\n",
                    line=22,
                ),
                Command(
                    "pytest -q",
                    "........................................................ [ 62%]\n"
                    "..................................                       [100%]\n"
                    "90 passed in 7.18s",
                    "Run all tests",
                    seconds=7.9,
                ),
            ),
        ),
        Reply(
            "Fixed. An empty cart is now refused with **422** and `the cart is empty`:\n\n"
            "- `shop/checkout.py` checks the cart before it looks for the largest price\n"
            "- `tests/test_checkout_empty.py` failed before the change and passes now\n\n"
            "All 90 tests pass."
        ),
        Prompt("Does the same thing happen in /cart/preview?"),
        Reply(
            thinking="Look for other uses of max() or min() over the lines.",
            tools=(
                Command(
                    "grep -rn 'max(\\|min(' shop/",
                    "shop/checkout.py:25:    largest = max(line.price for line in cart.lines)\n"
                    "shop/shipping.py:40:    return max(weights, default=0)",
                    "Look for other unguarded extremes",
                ),
            ),
        ),
        Reply(
            "No. `/cart/preview` only adds up the lines, and `shipping.py` already passes "
            "`default=0`. The checkout was the only place."
        ),
    ),
)

RATE_LIMITS = Story(
    key="shop/rate-limits",
    agent="codex",
    version="0.120.0",
    project="shop-api",
    start=datetime(2026, 11, 2, 13, 40, 51, tzinfo=UTC),
    model="gpt-5.1-codex",
    steps=(
        Prompt(
            "Which endpoints have no rate limit? Use a sub-agent for the search, then add them."
        ),
        Reply(
            "I'll send an agent through the routes.",
            thinking="**Planning the search**\n\nThe routes are spread over several modules.",
            tools=(
                Delegate(
                    "routes",
                    "Heron",
                    "List every route in shop/routes that has no @limited decorator. "
                    "Answer with file, line and path only.",
                    "gpt-5.1-codex",
                    (
                        Reply(
                            tools=(
                                Command(
                                    "grep -n -B1 '@router' shop/routes/*.py",
                                    "shop/routes/cart.py-11-@limited(60)\n"
                                    'shop/routes/cart.py:12:@router.get("/cart")\n'
                                    "shop/routes/orders.py-29-\n"
                                    'shop/routes/orders.py:30:@router.get("/orders/{id}")\n'
                                    "shop/routes/search.py-7-\n"
                                    'shop/routes/search.py:8:@router.get("/search")',
                                ),
                            ),
                        ),
                        Reply("orders.py:30 /orders/{id}, search.py:8 /search have no limit."),
                    ),
                ),
            ),
        ),
        Report(),
        Reply(
            "Two routes are open. Adding the decorator to both.",
            tools=(
                Edit(
                    "shop/routes/search.py",
                    '@router.get("/search")',
                    '@limited(30)\n@router.get("/search")',
                    line=8,
                ),
                Edit(
                    "shop/routes/orders.py",
                    '@router.get("/orders/{id}")',
                    '@limited(60)\n@router.get("/orders/{id}")',
                    line=30,
                ),
            ),
        ),
        Reply(
            tools=(Command("pytest -q tests/routes", "31 passed in 2.94s", seconds=3.6),),
        ),
        Reply(
            "`/orders/{id}` (60 a minute) and `/search` (30 a minute) were the only open routes; "
            "both are limited now and the 31 route tests pass."
        ),
    ),
)

COUPONS = Story(
    key="shop/coupons",
    agent="claude",
    version="2.1.325",
    project="shop-api",
    branch="fix/coupon-rounding",
    start=datetime(2026, 11, 4, 9, 3, 27, tzinfo=UTC),
    model=_SONNET,
    name="Coupon rounding",
    steps=(
        Prompt(
            "A customer got 0.01 more off than the coupon allows. Have an agent look for every "
            "place where we round, then tell me which one is wrong."
        ),
        Reply(
            "I'll let a search agent collect the places while I look at the coupon code.",
            tools=(
                Delegate(
                    "a3f19c0de84b7720f",
                    "Find rounding",
                    "Find every call of round(), quantize() and floor division on prices in shop/. "
                    "Report file, line and the rounding mode. Do not change anything.",
                    _HAIKU,
                    (
                        Reply(
                            tools=(
                                Command(
                                    "grep -rnE 'round\\(|quantize\\(|// *100' shop/",
                                    "shop/money.py:14:    return value.quantize(CENT, "
                                    "ROUND_HALF_EVEN)\n"
                                    "shop/coupons.py:33:    off = round(total * percent / 100, 2)\n"
                                    "shop/tax.py:20:    return quantize(net * rate)",
                                    "Search for rounding",
                                ),
                            ),
                        ),
                        Reply(
                            "Three places: money.py:14 rounds half to even on Decimal, tax.py:20 "
                            "uses it, coupons.py:33 calls the built-in round() on a float."
                        ),
                    ),
                ),
                Read(
                    "shop/coupons.py",
                    "def discount(total: float, percent: int) -> float:\n"
                    "    off = round(total * percent / 100, 2)\n"
                    "    return total - off\n",
                    first_line=32,
                ),
            ),
        ),
        Reply("The coupon code rounds a float. Waiting for the search to see whether others do."),
        Report(),
        Reply(
            "Only `coupons.py` rounds floats; `money.py` and `tax.py` use Decimal. I'll move it "
            "over to the same function.",
            thinking="0.285 as a float is 0.284999..., so round() gives 0.28 on one side and the "
            "subtraction 0.01 more on the other. Decimal with the shared helper removes both.",
            tools=(
                Edit(
                    "shop/coupons.py",
                    "    off = round(total * percent / 100, 2)\n",
                    "    off = money.quantize(total * percent / 100)\n",
                    line=33,
                ),
                Command(
                    "pytest -q tests/test_coupons.py",
                    "............                                             [100%]\n"
                    "12 passed in 0.48s",
                    "Run the coupon tests",
                    seconds=1.1,
                ),
            ),
        ),
        Reply(
            "The wrong one was `coupons.py:33`: the built-in `round()` on a float. It uses "
            "`money.quantize()` now, like taxes and totals; 12 coupon tests pass."
        ),
    ),
)

INTEGER_CENTS = Story(
    key="shop/integer-cents",
    agent="claude",
    version="2.1.325",
    project="shop-api",
    branch="integer-cents",
    start=datetime(2026, 11, 9, 10, 21, 8, tzinfo=UTC),
    model=_OPUS,
    ai_title="Store order totals as integer cents",
    steps=(
        Prompt(
            "Let's store order totals as integer cents. Plan the migration before you write it."
        ),
        Reply(
            "The plan:\n\n"
            "1. add `total_cents` beside `total`, filled by the same writer\n"
            "2. backfill old rows in batches of 1000\n"
            "3. read `total_cents`, drop `total` one release later\n\n"
            "Step 2 is the risky one: 4 rows have three decimals.",
            thinking="The table is small enough for one statement, but a lock on orders during "
            "the day is not acceptable. Batches by primary key are safe to repeat.",
            tools=(
                Command(
                    "sqlite3 dev.db 'select count(*), sum(total*100 != round(total*100)) "
                    "from orders'",
                    "18211|4",
                    "Count rows with fractions of a cent",
                ),
            ),
        ),
        Reply("4 of 18211 rows have fractions of a cent. How should they be rounded?"),
        Prompt("Half even, like everywhere else. Go ahead."),
        Reply(
            tools=(
                Write(
                    "migrations/0017_total_cents.py",
                    "def upgrade(db):\n"
                    '    db.execute("alter table orders add column total_cents integer")\n'
                    "    for batch in batches(db, size=1000):\n"
                    "        db.executemany(\n"
                    '            "update orders set total_cents = ? where id = ?",\n'
                    "            [(to_cents(row.total), row.id) for row in batch],\n"
                    "        )\n",
                ),
                Command(
                    "python -m shop.migrate --database dev.db",
                    "0017_total_cents: 18211 rows in 19 batches, 1.9 s",
                    "Run the migration on the development database",
                    seconds=2.3,
                ),
            ),
        ),
        Reply("The column is filled. Next I'll make the writer fill it for new orders."),
        Compaction(
            "1. Request: store order totals as integer cents, half even.\n"
            "2. Done: migration 0017 adds and fills orders.total_cents (18211 rows).\n"
            "3. Next: the writer in shop/orders.py must fill total_cents; then the readers."
        ),
        Pause(timedelta(hours=21)),
        Prompt("Carry on with the writer."),
        Reply(
            tools=(
                Edit(
                    "shop/orders.py",
                    "        total=order.total,\n",
                    "        total=order.total,\n        total_cents=to_cents(order.total),\n",
                    line=58,
                ),
                Command(
                    "pytest -q",
                    "93 passed in 7.44s",
                    "Run all tests",
                    seconds=8.0,
                ),
            ),
        ),
        Reply("New orders fill both columns; 93 tests pass. The readers can follow next release."),
    ),
)

SLOW_SEARCH = Story(
    key="shop/slow-search",
    agent="claude",
    version="2.1.325",
    project="shop-api",
    start=datetime(2026, 11, 14, 16, 37, 45, tzinfo=UTC),
    model=_SONNET,
    steps=(
        Prompt("/search takes 3 seconds for two-letter words. Where does the time go?"),
        Reply(
            "I'll measure it.",
            tools=(
                Command(
                    "python -m cProfile -s cumtime scripts/search_once.py ab | head -5",
                    "         1842213 function calls in 3.127 seconds\n"
                    "   ncalls  cumtime  filename:lineno(function)\n"
                    "        1    3.127  search.py:41(search)\n"
                    "    48211    2.604  search.py:17(similarity)",
                    "Profile one search",
                    seconds=3.9,
                ),
            ),
        ),
        Reply(
            "Nearly all of it is `similarity()`: it is called for each of the 48211 products, "
            "because two letters make no trigram and the index is skipped."
        ),
        Prompt("Propose a fix, but do not change the index format."),
        Interruption(
            "Two ways keep the index as it is. First, answer words shorter than three letters from "
            "the prefix table, which already exists for"
        ),
    ),
)

STORIES = (EMPTY_CART, RATE_LIMITS, COUPONS, INTEGER_CENTS, SLOW_SEARCH)
