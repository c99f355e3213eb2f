"""Sessions as rows: what a list, a report or a search needs without assembling them."""
