"""Whatever happens to an agent, in any order: it is where a plain model of it is.

The plain model holds the ids of the items in a list, their features, counts and sums by id, every
observation as a row, and a set of the (decision, item) pairs that were observed.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from superarm import Agent, CombLinTS, CombUCB1, Decision, TopK, gaussian
from superarm.errors import DecisionError, ItemsError
from support import state

D, K = 3, 2
LAM, SIGMA = 1.5, 0.4
SETTINGS = settings(
    max_examples=60,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
weight = st.sampled_from([0.0, 0.25, 1.0])
seed = st.integers(0, 10**6)


class PlainAgent(RuleBasedStateMachine):
    """An agent, and what it should be."""

    learner = None  # of the subclasses
    by_feature = True

    @initialize(numbers=st.booleans(), seed=seed)
    def start(self, numbers, seed):
        self.made = 0  # ids so far
        self.numbers = numbers
        self.items = [self.new_id() for _ in range(5)]
        self.gone = []
        rows = np.random.default_rng(seed).standard_normal((5, D))
        self.features = dict(zip(self.items, rows, strict=True))
        self.agent = self.made_agent(seed)
        self.decisions = []
        self.observed = set()  # (decision, item)
        self.rows = []  # (features, weight, importance)
        self.count = dict.fromkeys(self.items, 0)
        self.total = dict.fromkeys(self.items, 0.0)

    def new_id(self):
        self.made += 1
        return 100 - 7 * self.made if self.numbers else f"item {self.made}"

    def made_agent(self, seed):
        rows = np.array([self.features[item] for item in self.items])
        return Agent(self.learner, features=rows, items=self.items, oracle=TopK(K), seed=seed)

    def learned(self, item, row, w, importance=1.0):
        self.rows.append((row, w, importance))
        if item in self.count:
            self.count[item] += 1
            self.total[item] += w

    def refused(self, error, call, *args, **options):
        """The call raises, and leaves the agent as it was."""
        before = state(self.agent)
        with pytest.raises(error):
            call(*args, **options)
        assert state(self.agent) == before

    # --- what can happen --------------------------------------------------------------------------

    @rule(data=st.data())
    def choose_and_observe(self, data):
        allowed = data.draw(st.sets(st.sampled_from(self.items), min_size=K))
        chosen = self.agent.choose(available=allowed).tolist()
        assert len(chosen) == K
        assert set(chosen) <= allowed
        part = data.draw(st.permutations(chosen))[: data.draw(st.integers(0, K))]
        w = [data.draw(weight) for _ in part]
        self.agent.observe(part, w)
        for item, x in zip(part, w, strict=True):
            self.learned(item, self.features[item], x)

    @rule(context=st.booleans(), seed=seed)
    def decide(self, context, seed):
        today = None
        if context:
            today = np.random.default_rng(seed).standard_normal((len(self.items), D))
        decision = self.agent.decide(features=today)
        assert set(decision.items) <= set(self.items)
        self.decisions.append(decision.to_json())

    @precondition(lambda self: self.decisions)
    @rule(data=st.data(), again=st.booleans())
    def observe_decision(self, data, again):
        """Late, in part, repeated, of items that are gone."""
        decision = Decision.from_json(data.draw(st.sampled_from(self.decisions)))
        part = data.draw(st.lists(st.sampled_from(decision.items), unique=True))
        w = {item: data.draw(weight) for item in part}
        importance = data.draw(st.sampled_from([None, 2.5])) if self.by_feature else None
        pairs = {(decision.id, item) for item in part}
        if pairs & self.observed and not again:
            self.refused(DecisionError, self.agent.observe, decision, w)
            return
        if not self.by_feature and not set(part) <= set(self.items):
            self.refused(ItemsError, self.agent.observe, decision, w, again=again)
            return
        self.agent.observe(decision, w, importance=importance, again=again)
        self.observed |= pairs
        for place, item in enumerate(decision.items):
            if item in w:
                self.learned(item, decision.features[place], w[item], importance or 1.0)

    @rule(data=st.data(), seed=seed)
    def add_items(self, data, seed):
        """New ones, and one that comes back as another."""
        new = [self.new_id() for _ in range(data.draw(st.integers(0, 2)))]
        if self.gone and data.draw(st.booleans()):
            new.append(self.gone.pop())
        rows = np.random.default_rng(seed).standard_normal((len(new), D))
        if not new:
            again = self.items[0]
            self.refused(ItemsError, self.agent.add_items, self.features[again][None], [again])
            return
        self.agent.add_items(rows, new)
        self.items += new
        self.features.update(zip(new, rows, strict=True))
        self.count.update(dict.fromkeys(new, 0))
        self.total.update(dict.fromkeys(new, 0.0))

    @precondition(lambda self: len(self.items) > K)
    @rule(data=st.data())
    def remove_items(self, data):
        most = len(self.items) - K
        gone = data.draw(st.sets(st.sampled_from(self.items), min_size=1, max_size=most))
        self.agent.remove_items(gone)
        self.items = [item for item in self.items if item not in gone]
        self.gone += sorted(gone)
        for item in gone:
            del self.features[item], self.count[item], self.total[item]

    @rule(data=st.data(), seed=seed)
    def merge(self, data, seed):
        """Another agent, which may have observed some of the same decisions."""
        other = self.made_agent(seed)
        decisions = [other.decide()]
        if self.decisions:
            decisions.append(Decision.from_json(data.draw(st.sampled_from(self.decisions))))
        pairs = set()
        learned = []
        for decision in decisions:
            item = data.draw(st.sampled_from(decision.items))
            if item not in self.items:
                continue
            x = data.draw(weight)
            other.observe(decision, {item: x})
            pairs.add((decision.id, item))
            learned.append((item, decision.features[decision.items.index(item)], x))
        if pairs & self.observed:
            self.refused(DecisionError, self.agent.merge, other)
            return
        self.agent.merge(other)
        self.observed |= pairs
        self.decisions.append(decisions[0].to_json())
        for row in learned:
            self.learned(*row)

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.npz"
            self.agent.save(path)
            back = Agent.load(path, seed="saved", oracle=TopK(K))
        assert state(back) == state(self.agent)
        self.agent = back

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def the_catalogue_is_that_of_the_model(self):
        assert self.agent.items.tolist() == self.items
        rows = [self.features[item] for item in self.items]
        np.testing.assert_array_equal(self.agent.problem.Phi, rows)

    @invariant()
    def the_ledger_knows_what_was_observed(self):
        held = self.agent.ledger.observed.values()
        assert sum(x.places.bit_count() for x in held) == len(self.observed)

    @invariant()
    def the_belief_is_that_of_the_model(self):
        self.check_belief(self.agent.belief)


class Linear(PlainAgent):
    """The belief is the posterior of all rows at once."""

    learner = CombLinTS(lam=LAM, sigma=SIGMA)

    def check_belief(self, belief):
        expected = gaussian.prior(D, LAM)
        if self.rows:
            phi, w, importance = (np.array(x) for x in zip(*self.rows, strict=True))
            expected = gaussian.condition(expected, phi, w, SIGMA, importance)
        for found, wanted in (
            (gaussian.mean(belief), gaussian.mean(expected)),
            (belief.R.T @ belief.R, expected.R.T @ expected.R),
        ):
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * scale)


class Itemwise(PlainAgent):
    """The belief is a count and a sum per item."""

    learner = CombUCB1()
    by_feature = False

    def check_belief(self, belief):
        assert belief.n.tolist() == [self.count[item] for item in self.items]
        total = [self.total[item] for item in self.items]
        np.testing.assert_allclose(belief.weight_sums, total, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("machine", [Linear, Itemwise])
def test_an_agent_is_where_its_plain_model_is(machine):
    run_state_machine_as_test(machine, settings=SETTINGS)
