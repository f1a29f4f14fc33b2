"""Imported by the process that forks servers: what a start and a first decision need is there."""

import numpy as np
import uvicorn.lifespan.on
import uvicorn.loops.uvloop
import uvicorn.protocols.http.httptools_impl  # noqa: F401  imported for those that fork from here

import superarm.cli
import superarm.service.http
import superarm.service.sqlite  # noqa: F401  as above
from superarm import CombLinTS, CombUCB1, Problem, TopK
from superarm.decide import compile_first_call

for learner in (CombLinTS(), CombUCB1()):
    problem = Problem(np.eye(3), TopK(2))
    compile_first_call(learner, learner.model.prior(problem), problem)
