"""Every command on the manual pages of rules runs.

Words in capitals are replaced by those of a shard set.
"""

import re
import shutil
import tarfile

import pytest

from tests.printed.pasted import paste, run
from tests.printed.sets import JSON, PICTURE, write
from tests.validate.rules.build import samples
from wdsflow.validate.catalog.manual_pages import page
from wdsflow.validate.catalog.rule_catalog import catalog, rule_list

COMMAND = re.compile(r"``?(wdsflow [a-z]+ [^`]*?)``?(?!`)", re.DOTALL)
STANDS_FOR = {
    "URL...": "'s/{0..1}.tar'",
    "VAL_URL": "'s/{0..1}.tar'",
    "SHARD": "s/0.tar",
    "FIELD": "description",
    "OLD=NEW": "json=json_raw",
}


def commands() -> list[str]:
    found = {
        " ".join(each.split())
        for rule in catalog().values()
        for each in COMMAND.findall(page(rule))
    }
    assert len(found) > 12
    return sorted(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("explain")
    whole = {"jpg": PICTURE, "txt": b"a brown dog", "json": JSON}
    write(made, [samples(9, **whole), samples(9, start=20, **whole)])
    (made / "train.py").write_text(
        "import webdataset\n\n\ndef make(urls):\n    return webdataset.WebDataset(urls, shardshuffle=False)\n"
    )
    return made


@pytest.mark.sample(8)
@pytest.mark.parametrize("command", commands())
def test_a_command_on_a_manual_page_runs(folder, command):
    with tarfile.open(folder / "s" / "0.tar") as tar:
        key = tar.getnames()[0].rpartition(".")[0]
    for word, meant in (*STANDS_FOR.items(), ("KEY", key)):
        command = command.replace(word, meant)
    for out in ("repaired", "filtered"):
        shutil.rmtree(folder / out, ignore_errors=True)
    done = paste(command, folder)
    assert done.status in (0, 1), done.errors
    assert "Error" not in done.errors


def test_the_list_of_rules_names_each_page(tmp_path):
    assert {line.split()[0] for line in run(["explain"], tmp_path).out.splitlines()} == {
        code for code, _, _ in rule_list()
    }
