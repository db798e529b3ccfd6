"""The walk: from the bytes of a tar to its members, as tarfile delivers them, and its damage.

All readers of WebDataset shards read tars with ``tarfile.open(mode="r|*")``, so that its rules
decide which samples a training sees. The walk follows these rules, reports where and how tarfile
ends, and then continues: members after damage are found, so that losses can be counted and
repaired.

    with open_source(url) as source:            # bytes: local or remote, compressed or not
        walk = Walk(source)
        for batch in walk:                      # neighbouring members: name, size, data, header,
        kind
            for name, size, data, header, kind in batch.rows: ...
        walk.stop, walk.seen                    # how tarfile ends; damage and oddities, each
        counted, with its first place

``shards/samples`` makes samples of members: ``group_members`` for code that looks at members
individually, ``Samples`` for ranges of bytes that are copied. No other code in this project groups
neighbouring members.

How it reads. ``windows`` reads as little as the source allows: all bytes of small members, only
headers of large ones; with ``ends`` also their first 4 KiB and last 32 bytes, which level headers
needs. ``plain_entries`` is the quick way through headers: nearly all bytes of a header repeat from
member to member, so these are compared with headers that were checked in full, and the rest (name,
size, checksum) is checked each time. Unusual entries go the careful way, one entry at a time, with
the same result: ``tar_entry`` reads an entry with its extended headers, by the rules in
``tar_header``. After damage, ``header_search`` finds the next header, and ``lost_members`` the
readable parts of lost ones.

Extended headers of more than 4 MiB are refused as damage. Files are not mapped into memory: a
mapped file that shrinks would kill the process. Of 2.0 microseconds for a member of a small sample,
reading takes 0.6 and the loop 1.4. NumPy over the same headers took 2.6 and more, and 0.09 s to
import; checks in lists, many headers at a time, 2.0 as well.
"""
