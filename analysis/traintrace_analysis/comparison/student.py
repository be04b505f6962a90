"""Student's t distribution, exactly: the gates work at 3 degrees of freedom and 5 in 10,000."""

import math
from functools import lru_cache

_TINY = 1e-300
_STEPS = 300


def upper_tail(t: float, freedom: float) -> float:
    """Give the chance that Student's t exceeds `t`; an infinite `freedom` is the normal one."""
    if math.isinf(freedom):
        return 0.5 * math.erfc(t / math.sqrt(2.0))
    if math.isinf(t):
        return 0.0 if t > 0.0 else 1.0
    half = 0.5 * _regularised_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
    return half if t >= 0.0 else 1.0 - half


@lru_cache(maxsize=4096)
def critical(level: float, freedom: float) -> float:
    """Give the t that is exceeded with chance `level`, 0 < level <= 0.5."""
    low, high = 0.0, 1.0
    while upper_tail(high, freedom) > level:
        low, high = high, 2.0 * high
    for _ in range(80):
        middle = 0.5 * (low + high)
        if upper_tail(middle, freedom) > level:
            low = middle
        else:
            high = middle
    return high


def _regularised_beta(x: float, a: float, b: float) -> float:
    """Give I_x(a, b) by its continued fraction (Lentz's method)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _regularised_beta(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, _safe(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    fraction = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        before = fraction
        for term in (even, odd):
            d = 1.0 / _safe(1.0 + term * d)
            c = _safe(1.0 + term / c)
            fraction *= c * d
        if abs(fraction - before) < 1e-14 * abs(fraction):
            break
    return front * fraction / a


def _safe(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
