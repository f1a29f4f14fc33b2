import users as bench


def test_a_row_for_each_learner_and_kind_of_features(capsys):
    bench.main(["--users", "6", "--items", "30", "--features", "3", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert printed.count("6 users") == 4 * (len(bench.LEARNERS) + 1)
    assert printed.count("x ⊗ y_e, d=5 x 3") == len(bench.LEARNERS) + 1
