"""The check of the documentation site finds broken links.

It also finds files that are loaded from other hosts without being asked.
"""

import pytest
from support.site.links import broken_links

WHOLE = '<h1 id="top"></h1><a href="other.html#there">x</a> <a href="https://example.org/">x</a> <img src="a.svg">'


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("", None),
        ('<a href="#top">x</a>', None),
        ('<a href="#bottom">x</a>', "no such place on the page"),
        ('<a href="other.html#here">x</a>', "no such place on the page"),
        ('<a href="gone.html">x</a>', "no such file"),
        ('<img src="gone.svg">', "no such file"),
        ('<script src="https://example.org/x.js"></script>', "is loaded from another host"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "is loaded from another host"),
    ],
)
def test_links_that_lead_nowhere_and_files_of_other_hosts_are_found(tmp_path, more, reason):
    (tmp_path / "index.html").write_text(WHOLE + more)
    (tmp_path / "other.html").write_text('<p id="there">')
    (tmp_path / "a.svg").write_text("<svg/>")
    assert [each.reason for each in broken_links(tmp_path)] == ([reason] if reason else [])
