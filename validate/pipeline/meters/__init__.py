"""What is counted at each stage of a pipeline while it runs.

``reported_stage`` has the counts, ``new_stages`` describes a stage before it runs. ``loss_counter``
counts the samples that a stage loses, repeats or combines: by ``followed_keys``, by
``combined_samples``, and by ``followed_stages``, whose code is known. ``batch_counts`` counts the
samples in a batch.
"""
