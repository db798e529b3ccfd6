"""The user's own pipeline: one run of it over the shards, and checks whether it resumes, forks and splits.

One run, from the verdict down to the user's code::

    judge_pipeline          the verdict: unclear_runs why there is none, run_reasons why samples are missing
    observation             the numbers of a run; sample_keys which samples came out, output_content how many are certain
    run_pipeline            starts the process and waits: run_request what it gets, process_stacks where it hangs
    run_process             the process: load_pipeline finds and builds the pipeline
    measured_loaders        the datasets of DataLoaders, in their workers
    reported_run            the stages with meters; what they report is in process_report, process_position and run_lists
    reported_stage          the counts of one stage: followed_keys, followed_stages, combined_samples, batch_counts

Checks of a loader, from the questions down to the user's code::

    check_loader            the questions: check_resume, check_fork, check_workers answer them
    loader_runs             starts processes: loader_messages what they get and report, loader_shards what they read
    loader_serving          the process: loader_ranks, loader_facts, loader_parts, source_lines, unpicklable_parts

Both::

    elements, rows, marks   what one element of the output holds, its samples as rows, their values as marks
"""
