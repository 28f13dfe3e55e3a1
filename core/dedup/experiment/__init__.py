"""What an experiment is: its specification, its plan, and the step that comes next. No input, no output."""
