from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import InvalidJob
from spotgrad.protocol.job import Adam, JobSpec, Sgd, Stop
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.merge import VcAsgd

HEAD = "name: digits\ntask: digits_task:Digits\ndataset: digits\n"


def refusal(rest: str, head: str = HEAD) -> str:
    with pytest.raises(InvalidJob) as caught:
        parse_job_file((head + rest).encode())
    text = str(caught.value)
    assert text.startswith("job file: ")
    assert "\n" not in text
    return text.removeprefix("job file: ")


def test_the_smallest_job_file_gets_every_default() -> None:
    spec = parse_job_file((HEAD + "epochs: 10").encode())
    assert spec == JobSpec(name="digits", task="digits_task:Digits", dataset="digits", epochs=10)
    assert spec.merge == VcAsgd(rule="vc-asgd", alpha="var")
    assert spec.retries.max_dead == 0.05
    assert spec.schedule.max_in_flight == 16


def test_the_job_file_of_the_contract_is_read() -> None:
    # Every block of a job file, and the price that its budget needs.
    body = """
name: digits-cnn
task: digits_task:Digits                  # "module:callable"
args: {channels: [16, 32]}
dataset: digits
epochs: 10
seed: 0
merge: {rule: vc-asgd, alpha: var}
local: {passes: 2, batch_size: 16, optimizer: {name: sgd, lr: 0.1, momentum: 0.9}, precision: fp32}
workers: {max: 8, subtasks_per_worker: 1, spot: true, gpu: 0, usd_per_hour: 0.4}
schedule: {issue: barrier, max_epoch_lead: 1, max_in_flight: 16}
evaluate: {every_epochs: 1, split: validation}
stop: {metric: accuracy, at_least: 0.97}
budget: {max_usd: 20, deadline: 6h}
retries: {failures: 3, interruptions: 20, refusals: 3, max_dead: 0.05}
keep: {versions: all, results_days: 30}
"""
    spec = parse_job_file(body.encode())
    assert spec.args == {"channels": [16, 32]}
    assert spec.local.passes == 2
    assert spec.local.optimizer == Sgd(name="sgd", lr=0.1, momentum=0.9)
    assert spec.stop == Stop(metric="accuracy", at_least=0.97)
    assert spec.workers.spot is True


def test_yaml_1_2_numbers_whole_numbers_for_floats_and_lists_for_pairs() -> None:
    spec = parse_job_file(
        (
            HEAD + "epochs: 1\nmerge: {alpha: 5e-1}\n"
            "local: {optimizer: {name: adamw, lr: 1, betas: [0.8, 0.9]}}"
        ).encode()
    )
    assert spec.merge == VcAsgd(alpha=0.5)
    assert spec.local.optimizer == Adam(name="adamw", lr=1.0, betas=(0.8, 0.9))


@given(
    st.fixed_dictionaries(
        {
            "name": st.from_regex("[a-z][a-z0-9-]{0,20}", fullmatch=True),
            "epochs": st.integers(1, 99),
        },
        optional={
            "seed": st.integers(0, 2**63 - 1),
            "merge": st.fixed_dictionaries({"alpha": st.floats(0.01, 0.99) | st.just("var")}),
            "args": st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), st.integers()),
        },
    )
)
def test_what_a_person_may_write_is_read_as_the_model_reads_it(content: dict[str, Any]) -> None:
    whole = {"task": "a.b:C", "dataset": "d", **content}
    # PyYAML writes no dot in 1e-05, which is a number in YAML 1.2 and text in its own YAML 1.1.
    assert parse_job_file(yaml.safe_dump(whole).encode()) == JobSpec.model_validate(whole)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("epoks: 10", 'epoks: unknown key; did you mean "epochs"?'),
        ("epochs: 1\nmerge: {alfa: var}", 'merge.alfa: unknown key; did you mean "alpha"?'),
        (
            "epochs: 1\nmerge: {rule: delta, etta: 1}",
            'merge.etta: unknown key; did you mean "eta"?',
        ),
        (
            "epochs: 1\nmerge: {rule: damped-delta, alpha: 1}",
            "merge.alpha: unknown key; allowed here: rule, buffers, ema, m",
        ),
        (
            "epochs: 1\nmerge: {zzz: 1}",
            "merge.zzz: unknown key; allowed here: rule, buffers, ema",
        ),
        (
            "epochs: 1\nlocal: {optimizer: {name: sgd, lr: 1, momentun: 0}}",
            'local.optimizer.momentun: unknown key; did you mean "momentum"?',
        ),
        (
            "epochs: 1\nlocal: {optimizer: {name: adam, lr: 1, momentum: 0}}",
            "local.optimizer.momentum: unknown key; "
            "allowed here: name, lr, betas, eps, weight_decay",
        ),
        ('epochs: 1\n"a\\nb": 1', '"a\\nb": unknown key; allowed here: name, task, args'),
        ("", "epochs: missing: a whole number from 1 to 999999"),
        ("epochs: 1\nstop: {}", "stop.metric: missing: text, not empty"),
        (
            "epochs: 1\nlocal: {optimizer: {name: sgd}}",
            "local.optimizer.lr: missing: a number above 0",
        ),
    ],
)
def test_a_wrong_or_missing_key_is_named_with_the_nearest(rest: str, said: str) -> None:
    assert refusal(rest).startswith(said)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (
            "merge: {alpha: 1.5}",
            'merge.alpha: 1.5 is not allowed: a number between 0 and 1 (exclusive) or "var"',
        ),
        (
            "merge: {alpha: 0}",
            "merge.alpha: 0 is not allowed: a number between 0 and 1 (exclusive)",
        ),
        ("merge: {alpha: 1}", "merge.alpha: 1 is not allowed"),
        ("merge: {alpha: true}", "merge.alpha: true is not allowed"),
        ("merge: {alpha: '0.5'}", 'merge.alpha: "0.5" is not allowed'),
        ("merge: {alpha: vary}", 'merge.alpha: "vary" is not allowed'),
        ("merge: {alpha: [0.5]}", "merge.alpha: [0.5] is not allowed"),
        (
            "merge: {rule: sgd}",
            'merge.rule: "sgd" is not allowed: "centered-clipping", "damped-delta", ',
        ),
        ("merge: 3", 'merge: 3 is not allowed: a mapping whose rule is "centered-clipping", '),
        ("merge:", "merge: null is not allowed: a mapping whose rule is "),
        (
            "merge: {rule: easgd, beta: 1.5}",
            "merge.beta: 1.5 is not allowed: a number above 0 and of at most 1",
        ),
        ("merge: {rule: fedbuff, size: 2.5}", "merge.size: 2.5 is not allowed: a whole number"),
        ("merge: {rule: vc-asgd, ema: 1}", "merge.ema: 1 is not allowed: a number between 0 and 1"),
        (
            "merge: {rule: delta, eta: 0.5}\nworkers: {max: 4}",
            "merge.eta: 0.5 is above 1.5/k = 0.375 with k = 4 subtasks in flight",
        ),
        (
            "merge: {rule: vc-asgd, start: epoch}\nschedule: {issue: rolling}",
            'merge.start: "epoch" needs schedule.issue "barrier", not "rolling"',
        ),
        ("local: {precision: fp16}", 'local.precision: "fp16" is not allowed: "fp32" or "bf16"'),
        ("local: {passes: 1.5}", "local.passes: 1.5 is not allowed: a whole number of at least 1"),
        ("local: {passes: 1e0}", "local.passes: 1.0 is not allowed: a whole number of at least 1"),
        ("local: {batch_size: true}", "local.batch_size: true is not allowed: a whole number"),
        (
            "local: {optimizer: sgd}",
            'local.optimizer: "sgd" is not allowed: '
            'a mapping whose name is "adam", "adamw" or "sgd"',
        ),
        (
            "local: {optimizer: {lr: 1}}",
            'local.optimizer: {"lr": 1} is not allowed: a mapping whose name is',
        ),
        (
            "local: {optimizer: {name: adagrad, lr: 1}}",
            'local.optimizer.name: "adagrad" is not allowed: "adam", "adamw" or "sgd"',
        ),
        (
            "local: {optimizer: {name: sgd, lr: -1}}",
            "local.optimizer.lr: -1 is not allowed: a number above 0",
        ),
        (
            "local: {optimizer: {name: adam, lr: 1, betas: [1]}}",
            "local.optimizer.betas: [1] is not allowed: a list of 2, each a number of at "
            "least 0 and below 1",
        ),
        (
            "local: {optimizer: {name: adam, lr: 1, betas: [1, x]}}",
            'local.optimizer.betas: [1, "x"] is not allowed: a list of 2',
        ),
        (
            "local: {optimizer: {name: adam, lr: 1, betas: [0.9, 1.5]}}",
            "local.optimizer.betas: [0.9, 1.5] is not allowed: a list of 2, each a number",
        ),
        ("workers: {spot: yes}", 'workers.spot: "yes" is not allowed: true or false'),
        ("workers: {spot: 1}", "workers.spot: 1 is not allowed: true or false"),
        ("evaluate: {split: 3}", "evaluate.split: 3 is not allowed: text, not empty"),
        (
            "schedule: {max_in_flight: 100001}",
            "schedule.max_in_flight: 100001 is not allowed: a whole number from 1 to 100000",
        ),
        ("seed: -1", "seed: -1 is not allowed: a whole number of at least 0"),
        ("args: [1]", "args: [1] is not allowed: a mapping"),
        (
            "retries: {max_dead: -0.1}",
            "retries.max_dead: -0.1 is not allowed: a number of at least 0",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(rest: str, said: str) -> None:
    assert refusal(f"epochs: 1\n{rest}").startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("name: A b", 'name: "A b" is not allowed'),
        ("name: 7", "name: 7 is not allowed"),
        ("name: 012", "name: 12 is not allowed"),
        ('name: "a\\n"', 'name: "a\\n" is not allowed'),
        ("task: digits", 'task: "digits" is not allowed'),
        ("task: ../x:y", 'task: "../x:y" is not allowed'),
        ("epochs: 0", "epochs: 0 is not allowed: a whole number from 1 to 999999"),
        ("epochs: ten", 'epochs: "ten" is not allowed'),
        (f"name: {'a' * 100}", f'name: "{"a" * 59}... is not allowed'),
    ],
)
def test_a_wrong_value_of_a_needed_key(line: str, said: str) -> None:
    key = line.split(":", maxsplit=1)[0]
    good = {"name": "a", "task": "m:T", "dataset": "d", "epochs": "1"}
    head = "".join(f"{name}: {value}\n" for name, value in good.items() if name != key)
    assert refusal(line, head).startswith(said)


def test_a_rule_about_several_keys_speaks_for_itself() -> None:
    assert (
        refusal("epochs: 1\nlocal: {optimizer: {name: sgd, lr: 1, nesterov: true}}")
        == "local.optimizer: nesterov needs a momentum above 0"
    )
    assert (
        refusal("epochs: 1\nstop: {metric: accuracy}")
        == "stop: needs exactly one of at_least and at_most"
    )
    assert refusal("epochs: 1\nevaluate: null\nstop: {metric: a, at_least: 1}").startswith(
        "stop needs evaluate"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "the file is empty"),
        ("- a", '["a"] is not a mapping; begin with name: <job>'),
        ("digits", '"digits" is not a mapping'),
        ("epochs: [1", "line 1, column 11: expected ',' or ']'"),
        ("args: !!python/object:os.system {}", "line 1, column 7: tags are not allowed"),
        ("epochs: 1\nepochs: 2", "line 2, column 1: duplicate key 'epochs'"),
        ("epochs: .inf", "line 1, column 9: .inf is not a finite number"),
        ("x" * (5 << 20), "5242880 bytes are over the limit of 1048576"),
    ],
    ids=["empty", "list", "text", "broken", "tag", "duplicate", "inf", "5 MB"],
)
def test_what_is_no_plain_mapping_is_refused(body: str, said: str) -> None:
    assert refusal(body, head="").startswith(said)


def test_every_key_that_this_version_cannot_honour_is_refused() -> None:
    rest = "workers: {subtasks_per_worker: 2}"
    assert "not supported yet" in refusal(f"epochs: 1\n{rest}")


def test_a_budget_without_a_price_is_refused_naming_both() -> None:
    assert refusal("epochs: 1\nbudget: {max_usd: 20}") == (
        "budget.max_usd: 20 cannot be kept without a price; "
        "say what one worker costs in workers.usd_per_hour"
    )
