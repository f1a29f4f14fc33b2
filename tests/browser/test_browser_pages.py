"""What the pages show of a service that learns while they are looked at."""

import csv
import json
import os
import re
import subprocess
import sys
import time

import pytest


def number_in(text):
    return float(re.search(r"[\d,]*\.?\d+", text)[0].replace(",", ""))


def until(read, reached, seconds=30):
    """What is read, once it is as wanted."""
    end = time.monotonic() + seconds
    while True:
        found = read()
        if reached(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.1)


def test_numbers_move_while_readers_click(visit, served):
    page = visit().log_in(served.key)
    page.wait_for_selector(".status:has-text('Live')")
    events = page.locator(".stat", has_text="Events").locator("dd").first
    decisions = page.locator("li.agent", has_text="news").locator(".beside").first
    first = number_in(events.text_content())
    made = number_in(decisions.text_content())
    until(lambda: number_in(events.text_content()), lambda n: n > first + 20)
    until(lambda: number_in(decisions.text_content()), lambda n: n > made + 10)


def test_the_range_of_time_is_kept(visit, served):
    found = visit()
    page = found.log_in(served.key)
    page.click(".ranges button:has-text('6 h')")
    page.wait_for_selector("[aria-pressed=true]:has-text('6 h')")
    assert "range=6h" in page.url
    page.go_back()
    found.to("/agents/news")
    page.wait_for_selector("[aria-pressed=true]:has-text('6 h')")


def test_an_agent_that_learns(visit, served):
    found = visit()
    found.log_in(served.key)
    page = found.to("/agents/news")
    page.wait_for_selector("section:has-text('Return per decision') canvas")
    page.wait_for_selector("text=Other choices are estimated")
    summary = page.locator("figcaption").first.text_content()
    assert "CombLinTS" in summary and "random choice" in summary
    page.locator("details summary", has_text="As a table").first.click()
    page.wait_for_selector("figure table tbody tr")
    page.wait_for_selector("section:has-text('Constraint') >> text=3 of 60 items")
    rows = page.locator("section:has-text('Coefficients') tbody tr")
    until(rows.count, lambda n: n == 20)
    page.fill("[aria-label='Find a feature']", "student")
    until(rows.count, lambda n: n < 20)
    assert all("student" in text for text in rows.all_text_contents())


def test_items_are_found_and_sorted(visit, served):
    found = visit()
    found.log_in(served.key)
    page = found.to("/agents/news/items")
    rows = page.locator("tbody tr")
    until(rows.count, lambda n: n == 50)
    chosen = [
        number_in(text) for text in page.locator("tbody tr td:nth-child(2)").all_text_contents()
    ]
    assert chosen == sorted(chosen, reverse=True)
    page.click("button:has-text('Next')")
    page.wait_for_selector("text=51 to 60 of 60")
    page.fill("[aria-label='Find an item']", "jazz or music/")
    page.wait_for_selector("text=No item matches")
    page.fill("[aria-label='Find an item']", "music/")
    page.wait_for_selector("text=1 to 10 of 10")
    page.click("th button:has-text('Item')")
    page.wait_for_selector("th[aria-sort=ascending]:has-text('Item')")
    names = page.locator("tbody th").all_text_contents()
    assert names == sorted(names) and len(names) == 10
    page.reload()  # the address says what was asked for
    page.wait_for_selector("text=1 to 10 of 10")


def test_a_decision_from_the_list_to_its_reasons(visit, served):
    found = visit()
    found.log_in(served.key)
    page = found.to("/agents/news/decisions")
    page.wait_for_selector("tbody tr:nth-child(50)")
    first = page.locator("tbody th a").first.text_content()
    page.click("button:has-text('Older')")
    until(lambda: page.locator("tbody th a").first.text_content(), lambda text: text != first)
    link = page.locator("tbody th a").first
    wanted = link.text_content()
    link.click()
    page.wait_for_selector(f"h1:has-text('Decision {wanted}')")
    assert page.locator("section:has-text('Chosen, and what') tbody tr").count() == 3
    assert page.locator("section:has-text('Why') svg.bar").count() > 0
    assert page.locator("section:has-text('Runners-up') tbody tr").count() > 0


def test_what_if_side_by_side(visit, served):
    found = visit(accept_downloads=True)
    found.log_in(served.key)
    page = found.to("/agents/hostile/whatif")
    page.fill("#last", "200")
    for kind in ("RandomChoice", "Greedy"):
        page.select_option("#kind", kind)
        page.click("button:has-text('Estimate')")
        page.wait_for_selector(f"tbody th:has-text('{kind}')")
    assert page.locator("tbody th").count() == 2
    assert page.locator("svg.forest circle").count() >= 1
    support = page.locator(".mark").all_text_contents()
    assert set(support) <= {"enough", "little", "too little to say"} and len(support) == 4
    with page.expect_download() as saved:
        page.click("text=Save as CSV")
    rows = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    assert len(rows) == 4 and {row["estimator"] for row in rows} == {"ips", "doubly robust"}
    with page.expect_download() as saved:
        page.click("text=Save as JSON")
    found = json.loads(saved.value.path().read_text())
    assert [one["kind"] for one in found] == ["RandomChoice", "Greedy"]


def test_what_if_nonsense_is_refused_in_words(visit, served):
    found = visit()
    found.refused = {422}
    found.log_in(served.key)
    page = found.to("/agents/news/whatif")
    page.select_option("#kind", "CombLinTS")
    page.fill("#setting-lam", "-1")
    page.click("button:has-text('Estimate')")
    page.wait_for_selector("[role=alert]:has-text('lam')")


def test_a_decision_is_tried_and_answered(visit, served):
    found = visit()
    found.log_in(served.key)
    page = found.to("/agents/news/try")
    page.fill("label:has-text('student') + input", "1")
    page.fill("#draws", "20")
    page.click("button:has-text('Decide')")
    page.wait_for_selector("h2:has-text('Decision')")
    for i in range(3):
        page.fill(f"#weight-{i}", str(i % 2))
    page.click("button:has-text('Give feedback')")
    page.wait_for_selector("text=Learned 3, known already 0.")
    page.click("button:has-text('Give feedback')")
    page.wait_for_selector("text=Learned 0, known already 3.")


@pytest.mark.parametrize("agent", ["news", "hostile"])
def test_the_requests_that_are_shown_work(visit, served, agent):
    found = visit()
    found.log_in(served.key)
    page = found.to(f"/agents/{agent}/try")
    page.fill("#draws", "5")
    page.fill("#user", 'O\'Brien "$KEY" `id`')
    if agent == "hostile":
        page.fill(
            "#available", "<script>document.title = 'broken'</script>\n]]>{{7*7}}${7*7}'\";--"
        )
        page.fill("#oracle", '{"kind": "TopK", "k": 1}')
    curl, python = page.locator("section:has-text('other means') pre").all_text_contents()
    assert served.key not in curl + python
    env = os.environ | {"KEY": served.key}
    made = subprocess.run(["bash", "-c", curl], env=env, capture_output=True, text=True, check=True)
    chosen = json.loads(made.stdout)
    assert len(chosen["items"]) == (3 if agent == "news" else 1) and chosen["draws"] == 5
    subprocess.run([sys.executable, "-c", python], env=env, capture_output=True, check=True)


def test_the_theme_is_switched_and_kept(visit, served):
    found = visit(color_scheme="light")
    page = found.log_in(served.key)
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    page.click("button:has-text('Dark')")
    dark = page.evaluate(color)
    assert dark != light
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(color) == dark
