"""Running a source on one's own machine. None of this exists in a cell."""
