import items


def test_each_change_of_a_catalogue_is_measured():
    rows = list(items.one_item(1, L=2000, d=3))
    assert [row.what.split()[0] for row in rows] == ["add", "remove"] * 3
    assert all(row.seconds > 0 for row in rows)


def test_few_items_are_compared_with_all():
    (row,) = items.few(1, L=2000, d=3, n=20)
    assert row.reference == "among all"
    assert row.ratio > 0
