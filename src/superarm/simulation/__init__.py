"""Learners against worlds, episode by episode and replicate by replicate."""
