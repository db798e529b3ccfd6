"""The output folder of a run: its options, finished outputs, and counts that add up.

Seven commands write into a folder: ``filter``, ``measure``, ``repair``, ``reshard``, ``graft``,
``pack`` and ``index``. All of them use ``OutputRecord``; one that writes each shard again needs no
more than this::

    with (
        working_folder(out) as folder,  # that of a url is temporary
        OutputRecord(folder, "thin", "thinned", ThinnedShard) as record,  # one run at a time
    ):
        write_shards(record, flags, jobs, thin, by_input, report, inputs=urls)  # begin, write what
        is missing, finish

``write_shards`` is ``record.begin(flags, names)``, which refuses or notes what is to be written;
``run_outputs``, which writes the outputs that are not done yet; and ``record.finish()``, which
writes ``sizes.json`` and ``__len__``.

Our files are in ``.wdsflow``, which no reader of shards opens:

* ``thin.json``: the options and the names of all outputs. Another run with other options is
  refused (``OtherOptions``).
* ``thin.jsonl``: a ``Line`` for each finished output: its origin, the identity of its files, its
  counts.
* ``unfinished.json`` exists from the first write until a run ends normally. ``validate`` reports it
  with the command that resumes.
* ``state-thin.json``: of a run, or of each slice, that works or has not done all; see
  ``run_state``, which writes it, and ``read_status``, which reads it.
* ``lock``: held by the run, or shared by its slices (``--shard-count``); see ``folder_lock``.

**Resume.** A line is written when its output is whole and has its name; lines are synced at most a
tenth of a second later. Its origin is taken before the inputs are read, so that the next run
notices an input that changed meanwhile. That run keeps an output if its line can be read, its
origin is the same, and its files are the same by size and 16 samples of their bytes. Otherwise the
output is written again, and the report says why, unless the line could not be read.

**Inputs that cannot be read.** They are reported as lost, and the next run tries them again. The
output of an earlier run is removed, because it would be taken for that of this one; it is kept, and
named, if its input is merely out of reach.

**Ends.** However a run ends (an error, a signal, a full disk), finished outputs stay and temporary
files are removed. A run that finished nothing leaves the folder as it was. After ``kill -9`` the
next run removes the leftovers.

**Counts.** A ``Line`` has sums (``Counts``): inputs are outputs plus left-out ones, by reason. They
are checked by ``Line.check``, when a line is made and when it is read; ``Counts`` and
``reason_lines`` print them for all commands. ``sizes.json`` and ``__len__``, from which OpenCLIP
takes the length of an epoch, exist only after a run that ended normally, and list the shards that
exist: ``begin`` moves those of an earlier run inside, ``finish`` writes them.

**Object stores.** ``working_folder`` gives a run a temporary folder for a url. ``OutputRecord``
then keeps the store equal to it: after ``begin``, each ``add`` and ``finish``; see
``wdsflow.records.object_store.store``. ``lock`` is an object, too (``store_lock``).

A new command defines a ``NewShard`` with its counts and a function that writes one output;
docs/extending.md shows one. ``filter`` and ``measure`` write several files per shard and run in
slices: they extend the record by ``RunRecord`` in ``wdsflow/filtering/run_record.py``.
"""
