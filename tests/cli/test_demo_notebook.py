"""The demo's notebook and data are what their maker made, and it shows what the demo relies on."""

import csv
import io
from importlib.resources import files

import nbformat

from reprise.demo.rentals import HEADER, rentals_csv
from reprise.demo.story import KILL_KERNEL_AFTER, KILL_SANDBOX_IN, notebook_cells


def test_the_shipped_data_is_what_the_maker_makes() -> None:
    assert (files("reprise.demo") / "rentals.csv").read_text() == rentals_csv()


def test_the_data_is_real_enough_to_need_cleaning_and_small_enough_to_copy() -> None:
    text = rentals_csv()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert HEADER.split(",") == list(rows[0])
    assert 2_000 < len(rows) < 10_000
    assert len(text) <= 200_000
    assert any(row["temperature_c"] == "n/a" for row in rows)
    assert any(row["rentals"] == "-1" for row in rows)
    assert len({tuple(row.values()) for row in rows}) < len(rows)


def test_the_notebook_is_valid_and_unexecuted() -> None:
    text = (files("reprise.demo") / "rentals.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in codes] == [None] * len(codes)
    assert [cell.id for cell in codes] == [cell.id for cell in notebook_cells()]
    assert notebook.metadata.kernelspec.name == "reprise"


def test_there_is_work_before_between_and_after_the_kills() -> None:
    ids = [cell.id for cell in notebook_cells()]
    first, second = ids.index(KILL_SANDBOX_IN), ids.index(KILL_KERNEL_AFTER)
    assert 5 <= first < second < len(ids) - 1
