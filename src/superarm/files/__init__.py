"""Files: arrays and JSON in one checked archive, put in place at once."""
