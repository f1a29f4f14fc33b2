"""Logging in and out, as somebody at a browser does."""


def test_the_link_of_the_demo_logs_in(visit, served):
    found = visit()
    found.page.goto(served.link)
    found.page.wait_for_selector("h1:has-text('Overview')")
    assert "key" not in found.page.url  # it is taken out of the address
    found.page.locator("li.agent h2").nth(1).wait_for()  # the two agents of the demo


def test_a_wrong_key_is_refused_in_words(visit, served):
    found = visit()
    found.refused = {401}
    page = found.page
    page.goto(served.url)
    page.fill("#key", "sa_wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]:has-text('not known')")
    page.fill("#key", served.key)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Overview')")


def test_logging_out_ends_it_in_all_tabs(visit, served):
    found = visit()
    found.refused = {401}
    page = found.log_in(served.key)
    other = page.context.new_page()
    other.goto(served.url)
    other.wait_for_selector("h1:has-text('Overview')")
    page.click("text=Log out")
    page.wait_for_selector("#key")
    assert page.locator("nav.places").is_hidden()
    other.wait_for_selector("#key")


def test_scripts_cannot_read_the_cookie(visit, served):
    page = visit().log_in(served.key)
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"


def test_a_key_for_looking_sees_no_more(visit, new_key):
    found = visit()
    found.refused = {403}
    page = found.log_in(new_key("read"))
    assert page.locator("nav.places a:has-text('Keys')").count() == 0
    found.to("/keys")
    alert = page.wait_for_selector("[role=alert]").text_content()
    assert "'admin'" in alert and "a key for: read" in alert


def test_a_revoked_key_is_sent_out(visit, served, new_key):
    reader = visit()
    reader.refused = {401}
    reader.log_in(new_key("read"))
    admin = visit()
    admin.log_in(served.key)
    page = admin.to("/keys")
    row = page.locator("tr", has_text="<i>for a test</i>").filter(has_text="read")
    row = row.filter(has=page.locator("button")).last
    row.locator("button").click()
    page.click("dialog button:has-text('Revoke')")
    page.wait_for_selector("#said:has-text('is revoked')", state="attached")
    reader.page.wait_for_selector("#key")  # the page asks to log in, without a click
