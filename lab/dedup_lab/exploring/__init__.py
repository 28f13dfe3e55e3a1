"""`dedup explore`: every request and every reply of a short conversation, broken once in every way.

`strikes` turns a point into a rule of the interposer, and finds the proof in the conversation that it struck. `visits`
does one run, with its clients in threads of this process. `crews` does many side by side. `shrinking` makes a schedule
short. `explorations` is the whole. What the points are, and what follows from the visits, is decided in the core
(dedup/experiment/points.py, dedup/judgement/explorations.py).
"""
