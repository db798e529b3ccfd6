"""The file of a certificate: what others can check of it, how large it gets, and that tampering is found out."""

import json
import os
import subprocess
from base64 import b64decode
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.shards.certificate import (
    Certificate,
    CertificateError,
    by_name,
    dump,
    found_folder,
    load,
    plain_url,
    shared_folder,
    stored_folder,
)
from wdsflow.shards.shard_identity import Identity

FACTS = {
    "created": "2026-01-01T00:00:00+00:00",
    "level": "full",
    "accepted_findings": 0,
    "accepted": [],
    "trains": True,
    "verdicts": [
        {"reader": "x", "title": "X", "outcome": "trains", "usable": 3, "samples": 3, "exact": True},
    ],
}


def certificate(names, seed=0, mark=None):
    rng = Random(seed)
    marks = mark or (lambda: rng.randrange(1 << 60))
    shards = {name: Identity(10_737_418_240 + rng.randrange(1000), rng.randbytes(32), marks()) for name in names}
    return Certificate("/somewhere/", shards, FACTS, whole=True)


def test_a_certificate_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "c.json"
    made = certificate(["000.tar", "a-b/1.tar", 'a-b/é\n".tar', "a-b-\udcff.tar", "x/part-01.tar", "x/part-02.tar"])
    path.write_bytes(dump(made))
    assert load(path) == made
    assert load(path).root == made.root


def test_the_order_in_which_shards_were_named_is_not_in_the_root():
    names = [f"{number}.tar" for number in range(20)]
    made = certificate(names)
    turned = Certificate("/elsewhere/", dict(reversed(made.shards.items())), FACTS)
    assert turned.root == made.root
    assert certificate(names, seed=1).root != made.root


def test_standard_tools_find_the_digest_and_the_root(tmp_path):
    """What docs/certificate.md tells others to do, without our code."""
    path = tmp_path / "c.json"
    made = certificate([f"s/{number:03d}.tar" for number in range(7)])
    path.write_bytes(dump(made))
    shown = subprocess.run(f"head -n -2 '{path}' | sha256sum", shell=True, capture_output=True, text=True, check=True)
    tree = json.loads(path.read_bytes())
    assert shown.stdout.split()[0] == tree["digest"]
    rows = [
        (start + rest, size, b64decode(value))
        for start, rows in tree["shards"].items()
        for rest, size, value, _ in rows
    ]

    lines = b"".join(f"{value.hex()} {size} {name}\0".encode() for name, size, value in rows)
    assert sha256(lines).hexdigest() == tree["root"]


@pytest.mark.parametrize("mark", [lambda: 1_795_379_204_634_234, lambda: "0123456789abcdef"], ids=["mtime", "etag"])
@pytest.mark.parametrize("name", ["{:06d}.tar", "part-00/laion2b-en-{:08d}.tar"])
def test_a_hundred_thousand_shards_take_less_than_ten_megabytes(mark, name):
    few, more = (
        len(dump(certificate(map(name.format, range(first, first + 2000)), mark=mark))) for first in (0, 98_000)
    )
    head = len(dump(certificate([], mark=mark)))
    assert head + 50 * (max(few, more) - head) <= 10_000_000


def test_any_changed_byte_of_a_certificate_is_found_out(tmp_path):
    path = tmp_path / "c.json"
    data = dump(certificate(["000.tar", "001.tar"]))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        path.write_bytes(changed)
        with pytest.raises(CertificateError, match=r"c\.json"):
            load(path)
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(CertificateError):
            load(path)


def test_shards_that_were_changed_together_with_the_digest_do_not_have_the_root(tmp_path):
    path = tmp_path / "c.json"
    made = certificate(["000.tar"])
    text = dump(made).replace(b'["000.tar",', b'["001.tar",').rpartition(b'"digest"')[0]
    path.write_bytes(text + f'"digest": "{sha256(text).hexdigest()}"\n}}\n'.encode())
    with pytest.raises(CertificateError, match="root"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"verdicts": [{"reader": "x"}]},
        {"verdicts": [{**FACTS["verdicts"][0], "usable": "many"}]},
        {"level": None},
        {"verdicts": None},
    ],
)
def test_a_forged_certificate_without_sense_is_refused_in_words(tmp_path, change):
    path = tmp_path / "c.json"
    made = certificate(["000.tar"])
    path.write_bytes(dump(Certificate(made.folder, made.shards, {**FACTS, **change})))
    with pytest.raises(CertificateError, match="not a certificate"):
        load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"wdsflow_certificate": 1}', "\0", "NaN"])
def test_other_files_are_no_certificates(tmp_path, text):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(CertificateError):
        load(path)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.binary(min_size=32, max_size=32), max_size=9))
def test_any_names_can_be_certified(tmp_path_factory, shards):
    path = tmp_path_factory.mktemp("any") / "c.json"
    printable = {
        name: value
        for name, value in shards.items()
        if not any(0xD800 <= ord(each) < 0xDC80 or 0xDD00 <= ord(each) < 0xE000 for each in name)
    }
    made = Certificate("", {name: Identity(1, value, None) for name, value in printable.items()}, FACTS)
    path.write_bytes(dump(made))
    assert load(path) == made


def test_shards_that_differ_only_in_where_their_names_begin_and_end_have_different_roots():
    one = Identity(1, bytes(32), None)
    sets = [{"2 a": one}, {"a": one}, {"a": Identity(12, bytes(32), None)}, {"a": one, "b": one}]
    sets.append({f"a\n{bytes(32).hex()} 1 b": one})
    assert len({Certificate("", shards, FACTS).root for shards in sets}) == len(sets)


@pytest.mark.parametrize(
    ("key", "facts", "command"),
    [
        ("certificate", FACTS, "validate /somewhere/000.tar --certify {path}"),
        ("manifest", {"samples": 1}, "index /somewhere/000.tar --checksums -o {path.parent} --force"),
    ],
)
def test_a_file_of_another_version_is_refused_with_the_command_that_writes_it_again(tmp_path, key, facts, command):
    path = tmp_path / "c.json"
    made = Certificate("/somewhere/", certificate(["000.tar"]).shards, facts)
    text = dump(made).replace(b'"wdsflow_certificate": 2', f'"wdsflow_{key}": 1'.encode()).rpartition(b'"digest"')[0]
    path.write_bytes(text + f'"digest": "{sha256(text).hexdigest()}"\n}}\n'.encode())
    with pytest.raises(CertificateError) as told:
        load(path)
    assert str(told.value) == (
        f"{path} is a {key} of version 1: only version 2 can be read; write it again with: wdsflow {command.format(path=path)}"
    )


def test_a_folder_is_named_relative_to_the_certificate_where_one_holds_the_other(tmp_path):
    shards, inside = f"{tmp_path}/set/", tmp_path / "set" / "c.json"
    assert stored_folder(shards, str(inside)) == "./"
    assert stored_folder(shards, str(tmp_path / "c.json")) == "set/"
    assert stored_folder(shards, str(tmp_path / "set" / "meta" / "c.json")) == "../"
    assert stored_folder(shards, "/elsewhere/c.json") == shards
    assert stored_folder("s3://bucket/set/", str(inside)) == "s3://bucket/set/"
    for file in (inside, tmp_path / "c.json", tmp_path / "set" / "meta" / "c.json"):
        assert found_folder(stored_folder(shards, str(file)), str(file)) == shards


def test_secrets_of_urls_are_not_in_names():
    assert plain_url("https://user:word@host/a.tar?X-Amz-Signature=1") == "https://host/a.tar"
    assert plain_url("a.tar") == os.path.abspath("a.tar")


def test_shards_in_different_places_share_no_folder():
    assert shared_folder(["https://one/0.tar", "https://two/0.tar"]) == ""
    assert shared_folder(["/a/b/0.tar", "/a/bc/0.tar"]) == "/a/"


def test_a_shard_is_known_by_the_longest_end_of_its_url():
    names = {"000.tar": 1, "a/000.tar": 2}
    urls = ["s3://new/place/a/000.tar", "s3://new/place/000.tar", "s3://new/place/001.tar"]
    assert by_name(urls, names) == ({"a/000.tar": urls[0], "000.tar": urls[1]}, urls[2:])
