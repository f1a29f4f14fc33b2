"""Data that ships with superarm, and how it was derived."""
