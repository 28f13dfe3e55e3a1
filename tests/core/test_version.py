"""The version has two places: one that installers read, one that is there where nothing was installed."""

from importlib.metadata import version

from dedup import __version__


def test_both_say_the_same() -> None:
    assert version("dedup") == __version__
