"""Joins, sorts and groups of more rows than fit into memory, by DuckDB.

Some questions concern all samples of a set at once: which row of a table belongs to which sample, which sample is the
duplicate of an earlier one, which of two sets has a key, which 30 % have the best score. The answers need a join, a
sort or a group over hundreds of millions of rows, on machines that have a few GiB to spare. This room asks DuckDB, and
nothing else in the project sorts or joins on disk.

`Tables` is a database for the time of one run::

    with Tables(scratch) as tables:
        tables.run("CREATE TABLE samples (place UBIGINT, key VARCHAR)")
        tables.add("samples", place=places, key=keys)  # columns, some thousand rows at a time
        for place, number in tables.rows("SELECT place, row_number() OVER (ORDER BY key, place) FROM samples ORDER BY place"):
            ...

What holds for all that use it:

* **Memory.** Rows are kept in memory up to a limit, 512 MiB by default, and beyond it in files of the scratch folder.
  Results are read some thousand rows at a time. Joins, sorts, groups and windows continue on disk; aggregates that
  collect values (`list`, `string_agg`) do not: sort instead, and collect in Python. Keep rows that are sorted below
  2 KiB, and put larger values into a file: sorts of wide rows by several threads in little memory end with ENOMEM.
* **Scratch.** The folder is given: next to the output, or a temporary folder. DuckDB's files in it are removed when the
  block ends. A killed run leaves them, so the folder has to be one that the next run empties (`scratch_folder`).
* **Order.** A result has the order of its ORDER BY and no other. Whatever is written or shown has one, down to the
  last column that tells two rows apart; the same input gives the same bytes with any number of threads.
* **Values.** Text is Unicode without lone surrogates. Bytes are BLOB, which sort as unsigned bytes. NUL is a character
  like any other. `?` in a statement stands for a value; names of columns are put in by `name`.
* **Interruption.** Ctrl-C and other signals end a statement within a moment.
* **Errors.** `TablesError`, an OSError that names the scratch folder: the disk is full (ENOSPC), the limit of memory is
  too small for a statement (ENOMEM), or a file cannot be read or written (EIO).
* **Network.** DuckDB neither loads nor installs extensions.
"""

from .tables import Tables, TablesError, name

__all__ = ["Tables", "TablesError", "name"]
