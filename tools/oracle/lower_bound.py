"""Writes internal/reward/combine/testdata/lower_bound.json: mean minus penalty times standard deviation of torch's mixtures
of normal distributions.

    pip install torch && python tools/oracle/lower_bound.py
"""
import json
import pathlib

import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

torch.manual_seed(35)
torch.set_default_dtype(torch.float64)


def case(name, weights, sigma, penalty, edits=6):
    weights = torch.tensor(weights)
    values = 5 + 2 * torch.randn(len(weights), edits)
    sigmas = sigma * torch.rand(len(weights), edits)
    counted = weights > 0
    parts = Normal(values[counted].T, sigmas[counted].T, validate_args=False)
    mixture = MixtureSameFamily(Categorical(weights[counted].expand(edits, -1)), parts, validate_args=False)
    bound = mixture.mean - penalty * mixture.stddev
    return {
        "name": name, "weights": weights.tolist(), "values": values.tolist(), "sigmas": sigmas.tolist(),
        "penalty": penalty, "bounds": bound.tolist(),
    }


cases = [
    case("one judge with sigma", [1.0], 2.0, 1.0),
    case("three judges without", [1.0, 1.0, 1.0], 0.0, 0.5),
    case("weights and sigmas", [0.5, 2.0, 1.0], 1.5, 2.0),
    case("one that does not count", [1.0, 0.0, 3.0], 1.0, 1.0),
    case("no penalty", [1.0, 3.0], 1.0, 0.0),
]
path = pathlib.Path(__file__).parents[2] / "internal/reward/combine/testdata/lower_bound.json"
path.write_text(json.dumps(cases) + "\n")
