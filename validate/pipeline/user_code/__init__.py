"""The code of the user: ``load_pipeline`` finds and builds the object that was named.

``iterables`` iterates over what is no iterable; ``user_module`` looks at the module of the object;
``user_process`` has what all processes that run the user's code have in common.
"""
