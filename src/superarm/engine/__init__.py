"""Engines that run independent calls: on the cores of this machine, or on a Ray cluster."""
