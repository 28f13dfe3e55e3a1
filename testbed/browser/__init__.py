"""Debian's Chromium without a screen, and axe-core in it: whether a page can be read, by whom, and at which width."""
