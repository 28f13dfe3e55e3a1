"""One attempt of one run, as its leader sees it: stage by stage, with the programs that work on it."""
