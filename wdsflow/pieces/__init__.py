"""The pieces of an output: one way to decide, write and read them.

Commands that make shards from shards copy nothing themselves. They decide: an output is a sequence
of **pieces**, in order. A piece is a range of a source, ``(first byte, byte after the last)``, or
new bytes::

    pieces = [(0, 2048), *member("a.txt", b"a new caption"), (4096, 8192)]

* ``filter`` keeps the ranges of some samples, ``graft`` puts new members between them, ``repair``
  writes new headers before old contents, ``reshard`` takes samples of several inputs
  (``pieces.py``; ``tar_members.py`` makes new members).
* Several inputs are one source: ``JoinedSource`` (``joined_source.py``). Byte ``offset`` of input
  ``number`` is at ``address(number, offset)``, so that a range is always two numbers.
* ``write_pieces`` makes a file of pieces, in one step: it exists completely, or not at all
  (``writer.py``).
* ``TarView`` holds pieces in 16 bytes each, and finds those of any part (``tar_view.py``);
  ``ViewSource`` reads that tar without writing it (``view_source.py``). So the feed reads the
  samples that a ledger keeps, and ``validate`` single samples.

``Source.parts`` resolves a range down to files, from which the writer copies. A tar may lack the
padding of its last member; only its source adds it. A source that is shorter than its pieces has
changed (SourceChangedError).
"""
