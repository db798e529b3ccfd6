"""A folder of this machine that keeps shards of servers, for all processes that read them.

* ``entry``: a file of the folder: which url, which version, how many bytes; all in its name.
* ``folder``: the layout, and what is there. Only files of this layout are ever removed.
* ``locks``: those of the operating system (flock), which a killed process loses.
* ``policy``: which shards are worth keeping: those that are needed next. A pure function.
* ``plan``: each run notes which shards it needs next, and reads what the others have noted.
* ``download``: a thread that writes a shard while it is read.
* ``cached_source``: a shard that is read from its file, also while that grows, or from its server.
* ``shard_cache``: the whole: opens a shard, and decides whether it is kept.

The state of a cache is its folder: there is no database that could differ from it. Whoever writes a
shard holds the lock of its file; one lock of the folder is held while it is decided what is kept.
"""
