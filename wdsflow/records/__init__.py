"""The output folder of a run: what was asked for, what is done, and counts that add up.

Seven commands write into a folder: ``filter``, ``score``, ``cut``, ``repair``, ``reshard``, ``graft`` and ``index``. All of
them use ``OutputRecord``::

    with OutputRecord(folder, "thin", "thinned", Thinned) as record:                    # one run at a time
        record.begin(options, [job.target.name for job in work])                        # or refuse, before anything is written
        report.shards = run_outputs(work, thin, of(record, made_from), report)          # what is not done yet, on all cores
        record.finish()                                                                 # sizes.json and __len__

Our files are in ``_wdsflow``, which no reader of shards opens:

===================  ==================================================================================================
``thin.json``        the options and the names of all outputs. Another run with other options is refused (``OtherOptions``)
``thin.jsonl``       a ``Line`` for each finished output: what it was made from, the identity of its files, its counts
``unfinished.json``  exists from the first write until all outputs are done. ``validate`` reports it with the command that resumes
``lock``             held by the run, or shared by its slices (``--shard-count``)
===================  ==================================================================================================

**Resume.** A line is written and synced when its output is whole and has its name. The next run keeps an output if its line
can be read, it would be made from the same, and its files are as they were written. Otherwise the output is written again and
the report says why.

**Ends.** However a run ends (an error, a signal, a full disk), finished outputs stay and temporary files go. A run that
finished nothing leaves the folder as it found it. After ``kill -9`` the next run removes what was left.

**Counts.** A ``Line`` names sums (``Counts``): what came in is what went out and what was left out, by reason. They are
checked in one place, ``Line.check``, when a line is made and when it is read; ``Counts`` and ``reason_lines`` print them for all
commands. ``sizes.json`` and ``__len__``, from which OpenCLIP takes the length of an epoch, exist only when all shards are
there: ``begin`` moves those of an earlier run inside, ``finish`` writes them.

A new command defines a ``Line`` (``OneFile``, if an output is one file) with its counts, a ``Report`` with its words, and a
function that writes one output. ``filter``, ``score`` and ``cut`` write several files per shard and run in slices: they extend
the record by ``RunRecord`` in ``wdsflow/filtering/run_record.py``.
"""
