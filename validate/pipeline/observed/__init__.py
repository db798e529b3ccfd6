"""The results of one run.

They are how many samples came out, how many certainly did, and why the others did not.

``observation`` computes the numbers: from the counts of the stages (``stage_losses``), by keys
(``sample_keys``) and by contents (``output_content``, which compares each ``output_column`` with
``input_content``; ``copies_run`` is a second run that decides what contents prove). ``run_reasons``
and ``unclear_runs`` put the numbers into words.
"""
