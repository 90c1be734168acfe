"""Squared distances are computed once where theta only scales them."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm

from pmgp.interface.distributions import BernoulliLogit
from pmgp.interface.model.taking_apart import take_apart
from tests.test_covariance import N, X, kernels, moments_of_pytensor, parts

PAIRS = [0, 1], [1, 2], [0, 2]


def kept(name: str) -> list:
    return parts(kernels()[name]).latent_prior.blocked._kept()["distance"]


def test_distances_are_kept_where_theta_only_scales_them():
    """With one length-scale, and not with one for each feature."""
    [distances] = kept("isotropic")
    squared = np.square(X[:, None] - X).sum(axis=-1)
    np.testing.assert_allclose(distances, -0.5 * squared, rtol=1e-10, atol=1e-12)
    assert kept("ard") == []


def test_no_more_than_two_matrices_are_kept():
    def many(ls, s):
        return sum(s * pm.gp.cov.ExpQuad(3, ls=ls[place], active_dims=pair) for place, pair in enumerate(PAIRS))

    model = parts(many)
    assert len(model.latent_prior.blocked._kept()["distance"]) == 2
    theta = np.linspace(-0.5, 0.5, model.dimension)
    expected = moments_of_pytensor(model)(theta)[1]
    np.testing.assert_allclose(np.tril(model.prior(theta).covariance), np.tril(expected), rtol=1e-12, atol=1e-13)


def test_kept_distances_follow_new_data_and_stay_out_of_pickles():
    with pm.Model() as model:
        data = pm.Data("inputs", X)
        ls = pm.Gamma("ls", 2.0, 2.0)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(3, ls=ls)).prior("f", X=data, reparameterize=False)
        BernoulliLogit("y", f, observed=np.zeros(N))
        latent = take_apart(model)
    theta = np.array([0.3])
    before = np.tril(latent.prior(theta).covariance)
    copied = pickle.loads(pickle.dumps(latent.latent_prior.blocked))
    assert copied._distances is None
    assert copied._packed is None
    np.testing.assert_array_equal(np.tril(copied(theta)[1]), before)
    with model:
        pm.set_data({"inputs": 2.0 * X})
    latent.refresh_data()
    np.testing.assert_allclose(np.tril(latent.prior(theta + np.log(2.0)).covariance), before, rtol=1e-12, atol=1e-13)
