"""`unisono doctor --json`, read as programs read it: alone, as ranks of a job, and by torchrun."""
import json

import jobs
import pytest

CHECK = {"name", "verdict", "found", "advice"}
VERDICTS = ("ok", "note", "warning", "problem")


def document_of(done):
    document = json.loads(done.stdout)
    assert done.returncode == (1 if document["verdict"] == "problem" else 0), jobs.explain(done)
    checks = document["job"] + [check for part in document["hosts"] + document["pairs"] for check in part["checks"]]
    assert all(check.keys() == CHECK and check["found"] for check in checks)
    assert document["verdict"] == max((check["verdict"] for check in checks), key=VERDICTS.index)
    return document


def test_alone():
    document = document_of(jobs.run(jobs.command(), "doctor", "--json"))
    assert document["kind"] == "machine" and len(document["hosts"]) == 1 and document["pairs"] == [] and document["job"] == []


@pytest.mark.parametrize("hosts, ranks", [("", [[0, 1, 2]]), ("1,2", [[0], [1, 2]])], ids=["one host", "two hosts"])
def test_as_ranks(hosts, ranks):
    pretended = ("--pretend-hosts", hosts) if hosts else ()
    document = document_of(jobs.run(jobs.command(), "run", "--no-prefix", "-n", 3, *pretended, jobs.command(), "doctor", "--json"))
    assert document["kind"] == "job" and [host["ranks"] for host in document["hosts"]] == ranks
    for pair in document["pairs"]:
        assert [pair[end]["rank"] for end in ("first", "second")] == [0, 1]
        assert pair["round_trip_least_us"] > 0 and all(pair[end]["sent_mbit_per_s"] > 0 for end in ("first", "second"))
    assert len(document["pairs"]) == len(ranks) - 1


@pytest.mark.skipif(not jobs.has("torch"), reason="torch is not here")
def test_by_torchrun():
    done = jobs.run("torchrun", "--standalone", "--nproc-per-node=2", "--no-python", jobs.command(), "doctor", "--json")
    document = document_of(done)
    assert document["hosts"][0]["ranks"] == [0, 1] and "torchrun" in document["job"][0]["found"]
