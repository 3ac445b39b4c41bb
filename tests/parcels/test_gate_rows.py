"""A size that the gate was told holds for any number of rows, whatever a file reckons with it."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_parts import file, node, tensor
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerwise.errors import ModelError
from peerwise.models.onnx_shapes import inferred

NUMBERS = (-(2**62), -1, 0, 1, 2, 3, 63, 64, 65, 777, 10**6, 2**31, 2**62)
Program = list[tuple[str, int, int]]


def _file(program: Program) -> bytes:
    """Numbers of one element: the rows, `NUMBERS`, and what each step makes of two before it; the last is a size."""
    weights = [tensor(f"v{i + 1}", [number], np.int64) for i, number in enumerate(NUMBERS)]
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "v3"], ["v0"], axis=0)]
    for place, (op, a, b) in enumerate(program, len(NUMBERS) + 1):
        if op == "Where":
            nodes += [node("Equal", [f"v{a}", f"v{b}"], [f"is{place}"])]
            nodes += [node("Where", [f"is{place}", f"v{b}", f"v{a - 1 if a else 0}"], [f"v{place}"])]
        elif op == "Gather":
            nodes += [node("Concat", [f"v{a}", f"v{b}"], [f"two{place}"], axis=0)]
            nodes += [node("Gather", [f"two{place}", "v4"], [f"v{place}"], axis=0)]
        else:
            nodes += [node(op, [f"v{a}", f"v{b}"], [f"v{place}"])]
    return file(*nodes, node("ConstantOfShape", [f"v{len(NUMBERS) + len(program)}"], ["made"]), weights=weights)


def _worked_out(program: Program, rows: int) -> int:
    """The size as the runtime would reckon it, with numbers of 64 bits."""
    values = [np.int64(rows), *map(np.int64, NUMBERS)]
    with np.errstate(all="ignore"):
        for op, a, b in program:
            x, y = values[a], values[b]
            if op == "Div":
                made = np.int64(
                    int(x) // int(y) if (x < 0) == (y < 0) or int(x) % int(y) == 0 else int(x) // int(y) + 1
                )
            elif op == "Where":
                made = y if x == y else values[a - 1 if a else 0]
            else:
                made = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Mod": np.mod}.get(op, lambda _, y: y)(
                    x, y
                )
            values.append(np.int64(made))
    return int(values[-1])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    steps: Program = []
    for known in range(len(NUMBERS) + 1, len(NUMBERS) + 1 + draw(st.integers(1, 5))):
        # mostly with the rows or with what came of them
        before = st.one_of(st.just(0), st.integers(len(NUMBERS), known - 1), st.integers(0, known - 1))
        steps.append(
            (draw(st.sampled_from(["Add", "Sub", "Mul", "Div", "Mod", "Where", "Gather"])), draw(before), draw(before))
        )
    return steps


@settings(max_examples=1000, deadline=None)
@given(programs())
@example([("Mul", 0, 13), ("Div", 14, 2), ("Add", 0, 0), ("Add", 0, 0), ("Gather", 0, 0)])
def test_a_size_that_was_told_is_fixed_or_in_step_with_the_rows(program: Program) -> None:
    try:
        told = inferred(_file(program), 64)["made"][0]
    except ModelError:
        return
    for rows in (1, 2, 3, 62, 63, 64, 65, 66, 100, 776, 777, 778, 1000, 10**6):
        try:
            size = _worked_out(program, rows)
        except (ZeroDivisionError, OverflowError):  # -2^63 / -1 has no answer in 64 bits either
            continue
        assert size == told or size * 64 == told * rows, (program, rows)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ([("Mul", 0, 5)], 128),  # twice the rows
        ([("Where", 0, 2)], 64),  # the rows, unless they are -1, as exporters write it for Expand
        ([("Add", 6, 7)], 66),  # 3 + 63
    ],
)
def test_what_exporters_reckon_with_is_told(program: Program, told: int) -> None:
    assert inferred(_file(program), 64)["made"] == [told]
