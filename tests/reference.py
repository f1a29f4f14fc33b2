"""The paper's pseudocode, letter by letter, in plain loops: what the library is checked and timed
against."""

import numpy as np


def kalman(theta, Sigma, sigma, pairs):
    """Algorithm 1."""
    for phi, w in pairs:
        gain = Sigma @ phi / (phi @ Sigma @ phi + sigma**2)
        theta = theta - gain * (phi @ theta) + gain * w
        Sigma = Sigma - np.outer(gain, phi @ Sigma)
    return theta, Sigma


def comb_lin_ts(Phi, oracle, lam, sigma, n, draw, rng):
    """Algorithm 2. `draw(t)` gives the weights of episode t; yields the chosen items."""
    d = Phi.shape[1]
    theta_bar, Sigma = np.zeros(d), lam**2 * np.eye(d)
    for t in range(1, n + 1):
        theta = rng.multivariate_normal(theta_bar, Sigma)
        A = oracle(Phi @ theta)
        w = draw(t)
        theta_bar, Sigma = kalman(theta_bar, Sigma, sigma, [(Phi[e], w[e]) for e in A])
        yield A


def comb_lin_ucb(Phi, oracle, lam, sigma, c, n, draw):
    """Algorithm 3."""
    d = Phi.shape[1]
    theta_bar, Sigma = np.zeros(d), lam**2 * np.eye(d)
    for t in range(1, n + 1):
        upper = [phi @ theta_bar + c * np.sqrt(phi @ Sigma @ phi) for phi in Phi]
        A = oracle(np.array(upper))
        w = draw(t)
        theta_bar, Sigma = kalman(theta_bar, Sigma, sigma, [(Phi[e], w[e]) for e in A])
        yield A


def grid_paths(m):
    """All monotone paths of an (m+1) x (m+1) grid, as lists of edges in GridPath's numbering."""

    def extend(r, c):
        if (r, c) == (m, m):
            yield []
        if c < m:
            yield from ([r * m + c, *rest] for rest in extend(r, c + 1))
        if r < m:
            yield from ([m * (m + 1) + r * (m + 1) + c, *rest] for rest in extend(r + 1, c))

    return list(extend(0, 0))
