"""Comparison of nested results."""


def assert_parts(got, want, compare):
    """Assert that tuples and lists have the same types and lengths; compare the other parts by a function."""
    if isinstance(want, (list, tuple)):
        assert type(got) is type(want)
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            assert_parts(mine, theirs, compare)
    else:
        compare(got, want)
