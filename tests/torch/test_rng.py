"""Random numbers: seeds, states, forks, and the distributions' moments."""
import math

import pytest
import torch

DRAWS = {
    "rand": lambda d, g=None: torch.rand(1000, device=d, generator=g),
    "randn": lambda d, g=None: torch.randn(1000, device=d, generator=g),
    "randint": lambda d, g=None: torch.randint(0, 10, (1000,), device=d, generator=g),
    "randperm": lambda d, g=None: torch.randperm(1000, device=d, generator=g),
    "uniform_": lambda d, g=None: torch.empty(1000, device=d).uniform_(2, 3, generator=g),
    "normal_": lambda d, g=None: torch.empty(1000, device=d).normal_(1, 2, generator=g),
    "bernoulli_": lambda d, g=None: torch.empty(1000, device=d).bernoulli_(0.3, generator=g),
    "exponential_": lambda d, g=None: torch.empty(1000, device=d).exponential_(2, generator=g),
    "multinomial": lambda d, g=None: torch.multinomial(torch.ones(10, device=d), 5, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers(dev, name):
    draw = DRAWS[name]
    torch.manual_seed(3)
    a, b = draw(dev).cpu(), draw(dev).cpu()
    torch.manual_seed(3)
    assert torch.equal(a, draw(dev).cpu()) and torch.equal(b, draw(dev).cpu())
    assert name == "multinomial" or not torch.equal(a, b)


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_its_own(dev, name):
    g = torch.Generator(device=dev)
    g.manual_seed(11)
    state = g.get_state()
    a = DRAWS[name](dev, g).cpu()
    torch.manual_seed(99), torch.rand(3, device=dev)  # the default generator does not matter
    g.set_state(state)
    assert torch.equal(a, DRAWS[name](dev, g).cpu()) and g.initial_seed() == 11


def test_moments(dev):
    n = 200_000
    for x, mean, deviation in (
        (torch.rand(n, device=dev), 0.5, 1 / math.sqrt(12)),
        (torch.randn(n, device=dev), 0, 1),
        (torch.empty(n, device=dev).exponential_(2), 0.5, 0.5),
        (torch.nn.functional.dropout(torch.ones(n, device=dev), 0.25), 1, math.sqrt(0.25 / 0.75)),
        (torch.empty(n, device=dev).bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    ):
        assert abs(x.mean().item() - mean) < 0.01 and abs(x.std().item() - deviation) < 0.02
    x = torch.randint(-5, 5, (n,), device=dev)
    assert x.min().item() == -5 and x.max().item() == 4 and abs(x.float().mean().item() + 0.5) < 0.05
    assert torch.rand(n, device=dev).max().item() < 1
    assert sorted(torch.randperm(100, device=dev).tolist()) == list(range(100))


def test_fork_rng_puts_the_state_back(dev):
    kw = {} if dev == "cpu" else {"devices": [0], "device_type": dev}
    torch.manual_seed(1)
    with torch.random.fork_rng(**kw):
        a = torch.rand(5, device=dev).cpu()
    assert torch.equal(a, torch.rand(5, device=dev).cpu())


@pytest.mark.tpu
def test_state_is_sixteen_bytes():
    torch.manual_seed(7)
    state = torch.tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.numel() == 16 and state.device.type == "cpu"
    a = torch.rand(3, device="tpu").cpu()
    torch.tpu.set_rng_state(state)
    assert torch.equal(a, torch.rand(3, device="tpu").cpu())
    torch.tpu.set_rng_state_all(torch.tpu.get_rng_state_all())
    torch.tpu.manual_seed(5)
    assert torch.tpu.initial_seed() == 5
    torch.tpu.manual_seed_all(6)
    assert torch.tpu.initial_seed() == 6 and torch.tpu.default_generators[0].initial_seed() == 6
    torch.tpu.seed()
    torch.tpu.seed_all()
    with pytest.raises((RuntimeError, TypeError)):
        torch.tpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


@pytest.mark.tpu
def test_a_changing_probability_does_not_compile(counted):
    x = torch.ones(64, device="tpu")
    torch.nn.functional.dropout(x, 0.5)
    with counted() as c:
        for p in (0.1, 0.2, 0.3):
            torch.nn.functional.dropout(x, p)
    assert c.built <= 1


@pytest.mark.tpu
@pytest.mark.parametrize("n, p", [(5, 0.3), (40, 0.1), (60, 0.5), (1000, 0.97), (100000, 0.02)])
def test_binomial_numbers_have_their_moments(n, p):
    torch.manual_seed(3)
    x = torch.binomial(torch.full((20000,), float(n), device="tpu"), torch.tensor(p, device="tpu")).cpu().double()
    spread = (n * p * (1 - p)) ** 0.5
    assert x.equal(x.round()) and x.min() >= 0 and x.max() <= n
    assert abs(x.mean() - n * p) < 5 * spread / 20000**0.5 and abs(x.std() / spread - 1) < 0.03
    law = torch.distributions.Binomial(n, torch.tensor(p, dtype=torch.float64))
    k = round(n * p)
    chance = law.log_prob(torch.tensor(float(k), dtype=torch.float64)).exp().item()
    assert abs((x == k).double().mean().item() - chance) < 5 * (chance / 20000) ** 0.5


@pytest.mark.tpu
def test_binomial_at_the_edges():
    count = torch.tensor([0.0, 7, 7, 7, float("nan"), -1], device="tpu")
    prob = torch.tensor([0.5, 0, 1, float("nan"), 0.5, 0.5], device="tpu")
    torch.testing.assert_close(
        torch.binomial(count, prob).cpu(), torch.tensor([0, 0, 7, float("nan"), float("nan"), 0]), equal_nan=True
    )
    assert torch.binomial(count.new_ones(3, 1), count.new_ones(4)).shape == (3, 4)
    assert torch.binomial(count.new_ones(0), count.new_ones(0)).shape == (0,)
