"""``destroy`` on moto: what goes, what stays, and that data goes only when somebody says so."""

import itertools
from collections.abc import Sequence

import pytest

from infra.deploy.destroy import Consent, Destroyed, StackStays, destroy
from infra.deploy.sam import SamFailed
from spotgrad.aws import removal
from spotgrad.aws.account import AwsAccount
from spotgrad.aws.clients import Clients
from spotgrad.cli.output import Output
from spotgrad.errors import Reject
from tests.contract.deployment import Deployer

NUMBERS = itertools.count(1)
KEEP, DELETE = Consent(delete_data=False, ask=True), Consent(delete_data=True, ask=False)


class Sam:
    """Deletes the stack that it is told to, unless somebody says no."""

    def __init__(self, deployer: Deployer, *, answer: str = "y") -> None:
        self._deployer = deployer
        self._answer = answer
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> None:
        self.commands.append(command)
        if self._answer == "error":
            raise SamFailed("sam delete ended with 1")
        if self._answer == "y":
            stack = command[command.index("--stack-name") + 1]
            self._deployer.client("cloudformation").delete_stack(StackName=stack)


@pytest.fixture
def stack(deployer: Deployer) -> str:
    """A stack of its own with a bucket, as its outputs say."""
    return deployer.stack_of_bucket(f"destroy-{next(NUMBERS)}")


def run(stack: str, clients: Clients, consent: Consent, sam: Sam) -> Destroyed:
    return destroy(stack, AwsAccount(), clients, consent, sam, Output(as_json=False))


def fill(clients: Clients, stack: str, objects: int = 3) -> None:
    for number in range(objects):
        clients.s3.put_object(Bucket=bucket(stack), Key=f"models/{number}", Body=b"w")


def bucket(stack: str) -> str:
    return f"{stack}-123456789012-us-east-1"


def buckets(clients: Clients) -> list[str]:
    return [row["Name"] for row in clients.s3.list_buckets()["Buckets"]]


def test_an_empty_bucket_goes_with_its_stack(
    stack: str, clients: Clients, deployer: Deployer
) -> None:
    sam = Sam(deployer)
    assert run(stack, clients, KEEP, sam) == Destroyed(stack, bucket(stack), bucket_deleted=True)
    assert sam.commands == [["sam", "delete", "--stack-name", stack, "--region", "us-east-1"]]
    assert bucket(stack) not in buckets(clients)


def test_a_bucket_with_data_stays_when_its_stack_goes(
    stack: str, clients: Clients, deployer: Deployer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(clients, stack)
    assert not run(stack, clients, KEEP, Sam(deployer)).bucket_deleted
    assert len(clients.s3.list_objects_v2(Bucket=bucket(stack))["Contents"]) == 3
    assert "holds data and stays: delete it with --yes-delete-data" in capsys.readouterr().out


def test_data_goes_when_somebody_says_so(
    stack: str, clients: Clients, deployer: Deployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "ENOUGH", 10)
    clients.s3.put_bucket_versioning(
        Bucket=bucket(stack), VersioningConfiguration={"Status": "Enabled"}
    )
    fill(clients, stack, 25)  # more than one page
    fill(clients, stack)
    clients.s3.delete_object(Bucket=bucket(stack), Key="models/0")
    sam = Sam(deployer)
    assert run(stack, clients, DELETE, sam).bucket_deleted
    assert sam.commands[0][-1] == "--no-prompts"
    assert bucket(stack) not in buckets(clients)


def test_a_bucket_whose_stack_is_gone_can_still_be_deleted(
    stack: str, clients: Clients, deployer: Deployer
) -> None:
    fill(clients, stack)
    run(stack, clients, KEEP, Sam(deployer))
    sam = Sam(deployer)
    assert run(stack, clients, DELETE, sam).bucket_deleted
    assert sam.commands == []


def test_nothing_at_all_is_nothing_to_do(clients: Clients, deployer: Deployer) -> None:
    assert not run("never-deployed", clients, DELETE, Sam(deployer)).bucket_deleted


@pytest.mark.parametrize(
    ("answer", "error"), [("n", StackStays), ("error", SamFailed)], ids=["declined", "failed"]
)
def test_while_the_stack_stays_so_does_its_data(
    stack: str, clients: Clients, deployer: Deployer, answer: str, error: type[Reject]
) -> None:
    fill(clients, stack)
    with pytest.raises(error):
        run(stack, clients, DELETE, Sam(deployer, answer=answer))
    assert len(clients.s3.list_objects_v2(Bucket=bucket(stack))["Contents"]) == 3


def test_a_stack_without_a_bucket_is_left_alone(clients: Clients, deployer: Deployer) -> None:
    foreign = f"foreign-{next(NUMBERS)}"
    deployer.client("cloudformation").create_stack(
        StackName=foreign, TemplateBody='{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}'
    )
    sam = Sam(deployer)
    with pytest.raises(Reject, match=f"stack {foreign} is CREATE_COMPLETE and has no output"):
        run(foreign, clients, DELETE, sam)
    assert sam.commands == []
