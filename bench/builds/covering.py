"""Lists of configurations that cover every pair of values, and every triple of chosen factors, as far as rules allow them. A
function of factors and rules alone.

A row is a dictionary of factors and values. A rule is (factors, function): where the function of their values is true, no row
may have them together."""
import itertools
import random

TRIES = 12  # completions that are drawn for each row; the one that covers the most is taken


def is_broken(row, rules):
    """Whether a row, which may lack factors, breaks a rule."""
    for names, forbids in rules:
        values = [row[name] for name in names if name in row]
        if len(values) == len(names) and forbids(*values):
            return True
    return False


def fill(rng, factors, rules, row, left):
    """Gives the factors that are left values, going back where rules stand in the way. Whether there are any."""
    if not left:
        return True
    name = left[0]
    touched = [rule for rule in rules if name in rule[0]]
    for row[name] in rng.sample(factors[name], len(factors[name])):
        if not is_broken(row, touched) and fill(rng, factors, rules, row, left[1:]):
            return True
    del row[name]
    return False


def complete(rng, factors, rules, fixed):
    """A row with these values that the rules allow, or None."""
    row = dict(fixed)
    ruled = {name for names, _ in rules for name in names}
    left = sorted((name for name in factors if name not in row), key=lambda name: name not in ruled)
    if is_broken(row, rules) or not fill(rng, factors, rules, row, left):
        return None
    return {name: row[name] for name in factors}


def parts_of(row, groups):
    """What a row covers: a group of factors and their values."""
    return {(group, *map(row.get, group)) for group in groups}


def covering_list(factors, core, rules):
    """Rows that cover what some row can have."""
    rng = random.Random("covering")
    groups = [*itertools.combinations(factors, 2), *itertools.combinations(core, 3)]
    left = {(group, *values): None for group in groups
            for values in itertools.product(*(factors[name] for name in group))}
    rows = []
    while left:
        group, *values = next(iter(left))
        wanted = dict(zip(group, values))
        if not complete(rng, factors, rules, wanted):
            left.pop((group, *values))
            continue
        drawn = [complete(rng, factors, rules, wanted) for _ in range(TRIES)]
        rows.append(max(drawn, key=lambda row: len(parts_of(row, groups) & left.keys())))
        for part in parts_of(rows[-1], groups):
            left.pop(part, None)
    return rows
