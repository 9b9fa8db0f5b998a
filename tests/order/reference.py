"""The definitions of order/, one number at a time, in Python's integers: what the arrays are tested against."""

from math import isqrt

ROUNDS = 20
MASK = (1 << 64) - 1


def mix(number):
    number = ((number ^ (number >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    number = ((number ^ (number >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return number ^ (number >> 33)


def below(digit, key, radix):
    number = ((digit ^ key) * 0xFF51AFD7ED558CCD) & MASK
    number = ((number ^ (number >> 32)) * 0xC4CEB9FE1A85EC53) & MASK
    return ((number >> 32) * radix) >> 32


def radices_and_keys(size, key):
    first = isqrt(max(size, 1) - 1) + 1
    first += first % 2
    base = mix(key)
    keys = [mix((base + number * 0x9E3779B97F4A7C15) & MASK) for number in range(1, ROUNDS + 1)]
    return first, -(-max(size, 1) // first), list(zip(keys[::2], keys[1::2], strict=True))


def permuted(position, size, key):
    """What is at this position."""
    radix_a, radix_b, keys = radices_and_keys(size, key)
    while True:
        left, right = divmod(position, radix_b)
        for even, odd in keys:
            left = (left + below(right, even, radix_a)) % radix_a
            right = (right + below(left, odd, radix_b)) % radix_b
        position = left * radix_b + right
        if position < size:
            return position


def position_of(thing, size, key):
    """Where this is: the inverse of `permuted`."""
    radix_a, radix_b, keys = radices_and_keys(size, key)
    while True:
        left, right = divmod(thing, radix_b)
        for even, odd in reversed(keys):
            right = (right - below(left, odd, radix_b)) % radix_b
            left = (left - below(right, even, radix_a)) % radix_a
        thing = left * radix_b + right
        if thing < size:
            return thing


def part(step, rank, batch, ranks):
    """The numbers that a rank takes in a step; those from the number of samples on are padding."""
    first = (step * ranks + rank) * batch
    return list(range(first, first + batch))
