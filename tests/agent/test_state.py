from superarm.agent.state import State


def test_another_belief_changes_nothing_else():
    state = State(*(object() for _ in State._fields))
    assert state.believing("other") == state._replace(belief="other")
