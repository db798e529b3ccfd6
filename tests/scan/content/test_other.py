import collections
import datetime
import gzip
import io
import pickle
import struct
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import encoded, photo
from wdsflow.scan.content.cbor import cbor_is_valid
from wdsflow.scan.content.other import decode_other

OK, BAD, PARTLY = ("ok", ()), ("bad", ("field.bad",)), ("partly", ("field.bad",))


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@given(st.binary(max_size=8) | st.from_regex(rb"\A[ \n]*[+-]?[0-9_]{1,8}[ \n]*\Z"))
def test_an_integer_is_what_int_takes(data):
    try:
        int(data)
        expected = OK
    except ValueError:
        expected = BAD
    assert decode_other("integer", "cls", data) == expected


def test_integers_beyond_pythons_limit_of_digits_are_bad_and_padding_is_not():
    assert decode_other("integer", "cls", b"1" * 5000) == BAD
    assert decode_other("integer", "cls", b"1" * 50_000_000) == BAD
    assert decode_other("integer", "cls", b" " * 5000 + b"7\n") == OK


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_pickles_are_never_opened(kind, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    data = pickle.dumps(Bomb())
    expected = (
        ("unsafe", ("field.unsafe",))
        if kind == "pickle"
        else ("bad", ("field.unsafe", "field.bad"))
    )
    assert decode_other(kind, "pyd", data) == expected
    assert decode_other("gz", "pyd.gz", gzip.compress(data)) == ("unsafe", ("field.unsafe",))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        # Of Python 2, whose names pickle knows.
        ("copy_reg", "unsafe"),
        ("__builtin__", "unsafe"),
        ("collections", "unsafe"),
        # Of the program that wrote it, and not of this one.
        ("__main__", "suspect"),
        ("no_such_package.inside", "suspect"),
    ],
)
def test_a_pickle_needs_the_modules_that_it_names(module, expected):
    data = f"c{module}\nname\n.".encode()
    assert decode_other("pickle", "pyd", data)[0] == expected


@pytest.mark.parametrize("protocol", range(6))
def test_a_module_that_a_pickle_names_once_for_several_things_is_known_each_time(protocol):
    data = pickle.dumps([collections.OrderedDict, collections.Counter], protocol)
    assert decode_other("pickle", "pyd", data)[0] == "unsafe"
    missing = data.replace(b"collections", b"no_such_one")
    assert decode_other("pickle", "pyd", missing)[0] == "suspect"


def test_a_pickle_too_large_to_be_looked_at_counts_as_one_that_loads(monkeypatch):
    monkeypatch.setattr("wdsflow.scan.content.pickled._LONGEST", 20)
    assert decode_other("pickle", "pyd", b"no pickle at all") == (
        "bad",
        ("field.unsafe", "field.bad"),
    )
    assert decode_other("pickle", "pyd", b"no pickle at all" * 2) == ("unsafe", ("field.unsafe",))


def test_files_of_old_versions_of_torch_are_read_up_to_their_objects():
    torch = pytest.importorskip("torch")

    def saved(value):
        stream = io.BytesIO()
        torch.save(value, stream, _use_new_zipfile_serialization=False)
        return decode_other("torch", "pth", stream.getvalue())[0]

    assert saved({"a": torch.ones(3)}) == "unsafe"
    assert saved({"a": datetime.date(2026, 1, 1)}) == "suspect"


def zipped(members, method=0):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    data = bytearray(stream.getvalue())
    last = data.rindex(b"PK\x01\x02")
    data[last + 10 : last + 12] = method.to_bytes(2, "little")
    return bytes(data)


def test_a_zip_file_is_one_of_torch_by_its_pickle_and_must_unzip():
    members = {"a/data.pkl": pickle.dumps({}), "a/data/0": b"x"}
    for name, expected in (
        (zipped(members), "unsafe"),
        (zipped(members, method=99), "suspect"),
        (zipped({"a/other.pkl": pickle.dumps({})}), "bad"),
    ):
        assert decode_other("torch", "pth", name)[0] == expected


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4),
        np.zeros((0, 5), "f4"),
        np.array(3.5),
        np.array(["a", "bc"]),
        np.zeros(3, [("x", "f4"), ("y", "i2", (2,))]),
        np.asfortranarray(np.ones((3, 4))),
    ],
)
def test_arrays_that_numpy_reads_are_sound_and_cut_ones_are_not(array):
    data = npy(array)
    assert decode_other("npy", "npy", data) == OK
    assert decode_other("npz", "npz", npz(a=array, b=array)) == OK
    if array.nbytes:
        assert decode_other("npy", "npy", data[:-1]) == BAD


def test_arrays_of_objects_and_arrays_that_claim_too_much_are_bad():
    assert (
        decode_other("npy", "npy", npy(np.array([{}, []], dtype=object), allow_pickle=True)) == BAD
    )
    assert decode_other("npz", "npz", npz(a=np.array([{}], dtype=object))) == PARTLY
    huge = npy(np.zeros(3)).replace(b"(3,), }", b"(3_000_000_000_000,), }"[:7])
    claims = npy(np.zeros(3)).replace(
        b"'shape': (3,), }            ", b"'shape': (3000000000000,), }"
    )
    assert claims != npy(np.zeros(3))
    assert decode_other("npy", "npy", claims) == BAD
    assert decode_other("npy", "npy", huge[:40]) == BAD


def test_a_zip_bomb_is_not_unpacked():
    stream = io.BytesIO()
    head = npy(np.zeros(2))[:-16].replace(b"(2,), }         ", b"(50000000,), }  ")
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w", force_zip64=True) as member,
    ):
        member.write(head)
        for _ in range(50):
            member.write(bytes(8_000_000))
    assert len(stream.getvalue()) < 4_000_000
    assert decode_other("npz", "npz", stream.getvalue()) == OK
    assert decode_other("npz", "npz", stream.getvalue()[:-30]) == BAD


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", bytes(100)]
)
def test_no_arrays_at_all_are_bad(data):
    assert decode_other("npy", "npy", data) == BAD
    assert decode_other("npz", "npz", data) == BAD


def test_tensors_of_webdataset_are_sound_and_damaged_ones_as_bad_as_there():
    tenbin = pytest.importorskip("webdataset.tenbin")
    data = bytes(tenbin.encode_buffer([np.arange(7, dtype="f4"), np.ones((2, 3), "u1")]))
    assert decode_other("tenbin", "ten", data) == OK
    differ = 0
    for place in range(len(data)):
        # Numpy takes a negative size for "the rest"; we do not.
        for value in (
            0,
            127,
            data[place] ^ 1,
        ):
            broken = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                tenbin.decode_buffer(broken)
                expected = OK
            except Exception:
                expected = BAD
            differ += decode_other("tenbin", "ten", broken) != expected
    assert differ == 0


def test_a_gzipped_field_is_judged_by_what_it_holds():
    assert decode_other("gz", "txt.gz", gzip.compress(b"a dog")) == OK
    assert decode_other("gz", "txt.gz", gzip.compress(b"caf\xe9")) == (
        "not-utf8",
        ("text.not-utf8",),
    )
    assert decode_other("gz", "json.gz", gzip.compress(b"{")) == ("bad", ("json.bad",))
    assert decode_other("gz", "cls.gz", gzip.compress(b"7")) == OK
    assert decode_other("gz", "jpg.gz", gzip.compress(encoded(photo(), "JPEG"))) == OK
    assert decode_other("gz", "bin.gz", gzip.compress(b"7")) == ("-", ())
    assert decode_other("gz", "txt.gz.gz", gzip.compress(gzip.compress(b"7"))) == ("-", ())
    assert decode_other("gz", "gz", gzip.compress(b"7")) == ("-", ())


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"a dog" * 99)[:-9], gzip.compress(b"a dog") + b"more"],
    ids=["no gzip", "cut", "more behind it"],
)
def test_gzip_that_does_not_unzip_is_bad(data):
    assert decode_other("gz", "txt.gz", data) == ("not-zipped", ("field.bad",))


def test_a_gzip_bomb_is_left_alone():
    bomb = gzip.compress(bytes(80 << 20), compresslevel=1)
    assert decode_other("gz", "txt.gz", bomb) == ("suspect", ("field.huge",))


@pytest.mark.parametrize("kind", ["msgpack", "cbor"])
def test_a_missing_library_is_named_as_the_reason(kind, monkeypatch):
    # As Python has it where a module may not be imported.
    monkeypatch.setitem(sys.modules, kind, None)
    assert decode_other(kind, kind, b"\x80") == ("no-library", ("field.needs-library",))


def test_msgpack_is_judged_by_its_library_up_to_a_size(monkeypatch):
    msgpack = pytest.importorskip("msgpack")
    data = msgpack.packb({"a": [1, 2.5, "dog", b"x"]})
    assert decode_other("msgpack", "mp", data) == OK
    assert decode_other("msgpack", "mp", data[:-1]) == BAD
    assert decode_other("msgpack", "mp", b"\xdd\xff\xff\xff\xff") == BAD
    assert decode_other("msgpack", "mp", b"\x91" * 100_000) == BAD
    monkeypatch.setattr("wdsflow.scan.content.other._MOST_MSGPACK", len(data) - 1)
    assert decode_other("msgpack", "mp", data) == ("suspect", ("field.huge",))
    assert decode_other("msgpack", "mp", data[:-1]) == BAD


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        # RFC 8949, appendix A
        ("00", True),
        ("1bffffffffffffffff", True),
        ("c249010000000000000000", True),
        ("fb3ff199999999999a", True),
        ("f6", True),
        ("c11a514b67b0", True),
        ("4401020304", True),
        ("62c3bc", True),
        ("8301820203820405", True),
        ("a26161016162820203", True),
        ("5f42010243030405ff", True),
        ("9f018202039f0405ffff", True),
        ("bf61610161629f0203ffff", True),
        # appendix F: too short, reserved, breaks out of place
        ("", False),
        ("18", False),
        ("61", False),
        ("82", False),
        ("8201", False),
        ("a201", False),
        ("c0", False),
        ("9f01", False),
        ("1c", False),
        ("ff", False),
        ("81ff", False),
        ("61ff", False),
        ("5bffffffffffffffff00", False),
        ("9bffffffffffffffff00", False),
    ],
)
def test_cbor_is_valid_where_the_standard_says_so(text, sound):
    assert cbor_is_valid(bytes.fromhex(text)) is sound


def test_cbor_is_judged_where_its_library_is_installed(monkeypatch):
    monkeypatch.setattr("wdsflow.scan.content.other.has_library", lambda name: name == "cbor")
    assert decode_other("cbor", "cbor", b"\x81\x00") == OK
    assert decode_other("cbor", "cbor", b"\x81") == BAD


def test_cbor_nested_a_million_deep_is_refused_without_recursion():
    assert not cbor_is_valid(b"\x81" * 1_000_000 + b"\x00")
    assert not cbor_is_valid(b"\x9f" * 1_000_000)


def test_unknown_fields_stay_bytes():
    assert decode_other("opaque", "mp4", struct.pack(">I", 7)) == ("-", ())
