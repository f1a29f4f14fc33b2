from superarm import errors

TREE = [value for value in vars(errors).values() if isinstance(value, type)]


def test_every_exception_is_drawn_in_the_docstring_with_its_parent():
    for error in TREE:
        assert error.__name__ in errors.__doc__
        if error is errors.UnsupportedError:
            assert error.__bases__ == (errors.ParameterError,)
        elif error is not errors.SuperarmError:
            assert error.__bases__[0] is errors.SuperarmError
            line = next(
                line for line in errors.__doc__.splitlines() if f" {error.__name__} " in line
            )
            assert f"({error.__bases__[1].__name__})" in line
