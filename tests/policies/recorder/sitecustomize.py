"""Python loads this as it starts: every call that boto3 makes is written down, with who made it.

The policy test puts this folder on the path of the processes it starts. One JSON line a call, in
one file a process, appended before the call is made, so that nothing is lost to a SIGKILL.
"""

import json
import os
from pathlib import Path
from typing import Any

import botocore.session
from botocore.model import OperationModel

FOLDER = Path(os.environ["RECORDED_CALLS"])  # noqa: TID251 - set by the test for its children alone
CALLER = os.environ.get("AWS_SDK_UA_APP_ID", "")  # noqa: TID251 - who a process is, as SDKs say it
create_client = botocore.session.Session.create_client


def record(params: dict[str, Any], model: OperationModel, **_: object) -> None:
    line = {
        "caller": CALLER,
        "service": model.service_model.service_name,
        "operation": model.name,
        "parameters": {name: text for name, text in params.items() if isinstance(text, str)},
    }
    with (FOLDER / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def recording_client(self: botocore.session.Session, *args: Any, **kwargs: Any) -> Any:
    client = create_client(self, *args, **kwargs)
    client.meta.events.register("provide-client-params", record)
    return client


botocore.session.Session.create_client = recording_client  # type: ignore[method-assign]  # the one door to every client
