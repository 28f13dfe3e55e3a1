"""Known bugs, ten and twenty times: `make known-bugs`."""
