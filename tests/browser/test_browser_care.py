"""For everybody, on every screen: hostile names, screen readers, keyboards, phones."""

import json

import pytest
from visiting import HOSTILE

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

PAGES = {
    "overview": "/",
    "agent": "/agents/news",
    "items": "/agents/hostile/items",
    "decisions": "/agents/hostile/decisions",
    "what if": "/agents/hostile/whatif",
    "try it": "/agents/news/try",
    "keys": "/keys",
    "lost": "/nowhere",
}


def opened(found, name):
    """A page with all that it shows."""
    page = found.to(PAGES[name])
    if name == "agent":
        page.wait_for_selector("text=Other choices are estimated")
        page.wait_for_selector("section:has-text('Coefficients') tbody tr")
    if name == "what if":
        page.select_option("#kind", "Greedy")
        page.fill("#last", "100")
        page.click("button:has-text('Estimate')")
        page.wait_for_selector("svg.forest")
    if name == "try it":
        page.click("button:has-text('Decide')")
        page.wait_for_selector("h2:has-text('Decision')")
    if name == "decisions":
        page.wait_for_selector("tbody tr")
    return page


def open_decision(found):
    page = found.to("/agents/hostile/decisions")
    page.locator("tbody th a").first.click()
    page.wait_for_selector("h2:has-text('Runners-up')")
    return page


def require_accessible(page):
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_every_page(visit, served, scheme):
    found = visit(color_scheme=scheme)
    found.page.goto(served.url)
    found.page.wait_for_selector("#key")
    require_accessible(found.page)
    found.log_in(served.key)
    for name in PAGES:
        require_accessible(opened(found, name))
    require_accessible(open_decision(found))


def test_no_page_scrolls_sideways_on_a_phone(visit, served):
    found = visit(viewport={"width": 390, "height": 800}, has_touch=True)
    found.log_in(served.key)
    width = "document.documentElement.scrollWidth"
    for name in PAGES:
        assert opened(found, name).evaluate(width) <= 390, name
    assert open_decision(found).evaluate(width) <= 390


def test_hostile_names_are_shown_as_text(visit, served):
    found = visit()
    found.log_in(served.key)
    page = found.to("/agents/hostile/items")
    page.wait_for_selector("tbody tr:nth-child(7)")
    shown = page.locator("tbody th bdi").all_text_contents()
    assert sorted(shown) == sorted(HOSTILE)
    page = open_decision(found)
    chosen = page.locator("section:has-text('Chosen, and what') tbody th bdi").all_text_contents()
    assert len(chosen) == 3 and set(chosen) <= set(HOSTILE)
    found.to("/keys")
    page.locator("tbody tr").first.wait_for()
    assert page.locator("td i").count() == 0
    assert "broken" not in page.title()


def test_names_of_any_length_keep_the_layout(visit, served):
    """A service takes 1,000 characters; the page would bear more."""
    found = visit(viewport={"width": 390, "height": 800})
    found.log_in(served.key)
    one = {
        "item": "\u202e" + "<b>long</b>" * 1000,
        "chosen": 1,
        "weights": 1,
        "mean": 1e300,
        "low": -1e300,
        "high": 1e300,
        "predicted": None,
        "deviation": None,
    }
    answer = json.dumps({"items": [one], "found": 1, "total": 1})
    found.page.route("**/tallies*", lambda route: route.fulfill(body=answer))
    page = found.to("/agents/hostile/items")
    page.wait_for_selector("tbody tr")
    assert page.locator("tbody bdi").text_content() == one["item"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("tbody tr").bounding_box()["height"] < 60


def test_errors_are_shown_as_text(visit, served):
    found = visit()
    found.refused = {422}
    found.log_in(served.key)
    page = found.to("/agents/hostile/try")
    page.fill("#available", "<img src=x onerror=alert(1)>" + "y" * 900)
    page.click("button:has-text('Decide')")
    assert "<img src=x" in page.wait_for_selector("[role=alert]").text_content()


def test_by_the_keyboard_alone(visit, served):
    found = visit()
    page = found.page
    page.goto(served.url)
    page.wait_for_selector("#key:focus")
    page.keyboard.type(served.key)
    page.keyboard.press("Enter")
    page.wait_for_selector("li.agent")
    page.evaluate("document.activeElement.blur()")
    page.evaluate("window.getSelection().removeAllRanges()")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    walk = []
    for _ in range(40):
        page.keyboard.press("Tab")
        walk.append(page.evaluate("document.activeElement.textContent.trim()"))
        if walk[-1] == "news":
            break
    assert walk[:2] == ["15 min", "1 h"] and walk[-1] == "news"
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('news')")
    assert (
        page.evaluate("document.activeElement.tagName") == "H1"
    )  # readers are told where they are


def test_the_first_page_is_small(visit, served):
    found = visit()
    page = found.page
    session = page.context.new_cdp_session(page)
    sizes = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    session.send("Network.enable")
    found.log_in(served.key)
    page.wait_for_selector("li.agent")
    assert 10_000 < sum(sizes) < 300_000


def test_the_palette_of_the_page_is_that_of_the_library(visit, served):
    from superarm.palette import style_of, styles_of

    names = ["CombLinTS", "CombUCB1", "mine", "größer", "first day", "a", "b", "c"]
    page = visit().log_in(served.key)
    page.evaluate("async () => { window.parts = await import('./static/parts.js') }")
    one = page.evaluate("names => names.map(parts.styleOf)", names)
    assert [found["color"] for found in one] == [style_of(name).color for name in names]
    all_of = page.evaluate("names => parts.stylesOf(names)", names)
    assert {name: found["color"] for name, found in all_of.items()} == {
        name: style.color for name, style in styles_of(names).items()
    }
