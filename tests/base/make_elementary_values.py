#!/usr/bin/env python3
"""Writes elementary_values.h: arguments and the nearest doubles of exp, log, pow, sin and cos, from mpmath at 300 bits.

    python3 make_elementary_values.py >elementary_values.h
"""
import mpmath

mpmath.mp.prec = 300
COUNT = 48


def spread(seed, low, high):
    """COUNT numbers between low and high, the same on every machine."""
    state, numbers = seed, []
    for _ in range(COUNT):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append(low + (high - low) * ((state >> 11) / 2**53))
    return numbers


def near(values, steps=1):
    """The values and the doubles beside them."""
    return [v * (1 + k * 2.0**-52) for v in values for k in range(-steps, steps + 1)]


def table(name, function, rows):
    print(f"static const struct value {name}_values[] = {{")
    for row in rows:
        value = float(function(*[mpmath.mpf(x) for x in row]))
        x, y = row[0], row[1] if len(row) > 1 else 0.0
        print(f"    {{{x.hex()}, {y.hex()}, {value.hex()}}},")
    print("};\n")


def main():
    root, ln2, pi = 2.0**0.5, 0.6931471805599453, 3.141592653589793
    exps = [0.0, -0.0, 1.0, -1.0, 1e-300, 2.0**-53, -(2.0**-54), 709.7, -708.0]
    exps += near([k * ln2 / 2 for k in (1, -1, 3, -5, 99)]) + spread(1, -700, 700) + spread(2, -30, 0) + spread(3, -1, 1)
    logs = [1.0, 2.0, 0.5, 5e-324, 2.0**-1022, 1.7976931348623157e308, 1 + 2.0**-52, 1 - 2.0**-53]
    logs += near([root, root / 2, 1.0, 0.075, 4.0]) + spread(4, 0, 1) + spread(5, 0, 2) + [10.0**e for e in range(-300, 301, 50)]
    pows = [(b, float(t)) for b in (0.9, 0.95, 0.99, 0.999, 0.9999) for t in (1, 2, 3, 10, 100, 1000, 5000)]
    pows += [(base, i / 64) for base in (1e4, 5e5, 1e6) for i in range(0, 64, 3)]
    pows += list(zip(spread(6, 0, 3), spread(7, -600, 600))) + [(1 + 2.0**-40, 2.0**48), (1 - 2.0**-53, 2.0**62)]
    angles = [0.0, -0.0, 1e-300, 2.0**-30, 1.0, 8191.0, 131071.0, 2.0**27, -(2.0**27)]
    angles += near([k * pi / 4 for k in (1, 2, 3, 4, 7, 1000001, 85445659)]) + spread(8, -7, 7) + spread(9, -1e5, 1e5) + spread(10, -1e8, 1e8)
    print("/* Arguments and the doubles nearest to the values. Made by make_elementary_values.py. */")
    print("#ifndef ZN_TESTS_BASE_ELEMENTARY_VALUES_H\n#define ZN_TESTS_BASE_ELEMENTARY_VALUES_H\n")
    print("struct value {\n    double x, y, nearest; /* y of pow alone */\n};\n")
    table("exp", mpmath.exp, [(x,) for x in exps])
    table("log", mpmath.log, [(x,) for x in logs])
    table("pow", mpmath.power, pows)
    table("sin", mpmath.sin, [(x,) for x in angles])
    table("cos", mpmath.cos, [(x,) for x in angles])
    print("#endif")


main()
