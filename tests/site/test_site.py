"""The built site: no dead link, nothing from elsewhere, and a newcomer's searches find something.

Run by `make docs`, which builds the site at build/site first.
"""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import snowballstemmer

SITE = Path(__file__).parent.parent.parent / "build" / "site"
if not (SITE / "searchindex.js").exists():
    pytest.skip("no site at build/site: run make docs", allow_module_level=True)
PAGES = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


class Links(HTMLParser):
    """The ids of a page, what it links to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.ids = set()
        self.targets = []
        self.loaded = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.update(found[key] for key in ("id", "name") if found.get(key))
        if tag == "a" and found.get("href"):
            self.targets.append(found["href"])
        if tag in ("img", "script", "source") and found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def links():
    return {path: Links(path) for path in PAGES}


def is_elsewhere(address):
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def test_no_link_is_dead(links):
    """Links back from a source lead to the right page, but not always to a place on it: Sphinx
    gives all names of a module the prefix of one of them.
    """
    dead = []
    for path, page in links.items():
        is_source = "_modules" in path.parts
        for target in page.targets:
            if is_elsewhere(target):
                continue
            parts = urlsplit(target)
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = links[file].ids if file in links else set()
            names_nothing = parts.fragment and file in links and unquote(parts.fragment) not in ids
            if not file.exists() or (names_nothing and not is_source):
                dead.append((path.name, target))
    assert not dead


def test_a_page_loads_nothing_from_elsewhere(links):
    for path, page in links.items():
        for source in page.loaded:
            assert not is_elsewhere(source) or source.startswith("data:"), (path.name, source)
            file = urlsplit(source).path
            assert source.startswith("data:") or (path.parent / unquote(file)).exists(), source


def test_every_class_and_function_has_a_page_with_its_source(links):
    reference = [path for path in PAGES if path.parent.name == "api"]
    assert len(reference) > 100
    for path in reference:
        assert any("_modules/" in target for target in links[path].targets), path.name


# Sphinx's search, as searchtools.js does it: all words, by their stems, in titles or texts.

SEARCHES = {
    "install": {"installation"},
    "what is a bandit": {"concepts"},
    "contextual bandit": {"concepts", "tutorial"},
    "combinatorial semi-bandit": {"index", "concepts"},
    "thompson sampling": {"concepts", "api/superarm.CombLinTS", "learners", "choosing"},
    "ucb": {"concepts", "choosing", "api/superarm.CombLinUCB"},
    "exploration": {"learners", "concepts", "choosing"},
    "regret": {"concepts", "simulation", "paper", "api/superarm.Trace"},
    "cold start": {"concepts"},
    "delayed feedback": {"concepts", "tutorial"},
    "slate": {"slates", "concepts"},
    "click model": {"slates", "concepts"},
    "position bias": {"slates"},
    "knapsack": {"oracles", "api/superarm.Knapsack"},
    "shortest path": {"oracles", "recipes", "api/superarm.ShortestPath"},
    "assignment": {"oracles", "recipes", "api/superarm.Assignment"},
    "which learner": {"choosing"},
    "non-stationary": {"concepts", "choosing"},
    "save and load": {"agent", "api/superarm.Agent", "tutorial"},
    "off-policy evaluation": {"concepts", "offline"},
    "propensity": {"offline", "concepts"},
    "own algorithm": {"simulation"},
    "http service": {"service", "index"},
    "cite bibtex": {"cite"},
    "gpu": {"installation", "performance", "simulation"},
    "pandas": {"agent", "tutorial", "installation"},
    "InfeasibleError": {"faq", "api/superarm.errors.InfeasibleError"},
    "agent.observe": {"api/superarm.Agent"},
    "troubleshooting": {"faq"},
    "multi-armed bandit": {"concepts"},
    "recommendation": {"concepts", "cite", "slates"},
    "vehicle routes": {"oracles", "api/superarm.VehicleRoutes"},
    "A/B test": {"concepts", "faq"},
    "glossary": {"concepts"},
    "command line": {"command-line"},
}
PRIORITY = {0: 15, 1: 5, 2: -5}
"""What the kind of an object adds to its score: the search has these numbers."""
MOST = 8
"""How far down a list of results a reader looks."""


def index():
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])


def stopwords():
    text = (SITE / "_static" / "language_data.js").read_text(encoding="utf-8")
    return set(json.loads(re.search(r"stopwords = new Set\((\[.*?\])\)", text)[1]))


def pages_of(found):
    """The pages of an entry, which is a number where there is only one."""
    return found if isinstance(found, list) else [found]


def results(query, search, ignored):
    """Pages by how well they fit, the best first."""
    stem = snowballstemmer.stemmer("english").stemWord
    score = Counter()
    whole = query.lower().strip()
    for title, places in search["alltitles"].items():
        if whole in title.lower() and len(whole) >= len(title) / 2:
            for page, section in places:
                score[page] = max(score[page], 15 if section is None else 10)
    for entry, places in search["indexentries"].items():
        if whole in entry and len(whole) >= len(entry) / 2:
            for page, *_ in places:
                score[page] = max(score[page], 20)
    for prefix, objects in search["objects"].items():
        for page, _, priority, _, name in objects:
            if whole in f"{prefix}.{name}".lower():
                exact = name.lower() == whole.split(".")[-1]
                worth = (11 if exact else 6) + PRIORITY.get(priority, 0)
                score[page] = max(score[page], worth)
    words = [stem(word) for word in re.findall(r"\w+", whole) if word not in ignored]
    hits = []
    for word in words:
        found = Counter(dict.fromkeys(pages_of(search["terms"].get(word, [])), 5))
        found.update(dict.fromkeys(pages_of(search["titleterms"].get(word, [])), 15))
        hits.append(found)
    common = set.intersection(*(set(found) for found in hits)) if hits else set()
    for page in common:
        score[page] = max(score[page], *(found[page] for found in hits))
    return [search["docnames"][page] for page, _ in score.most_common()]


@pytest.fixture(scope="module")
def search():
    return index()


@pytest.mark.parametrize("query", SEARCHES)
def test_a_newcomers_search_finds_a_page(query, search):
    found = results(query, search, stopwords())
    assert SEARCHES[query] & set(found[:MOST]), found[:MOST]


def test_there_are_enough_searches():
    assert len(SEARCHES) >= 25
