"""Where pieces of work run: on the cores of this machine, or on a Ray cluster."""
