import pytest

from spotgrad.aws.account import AwsAccount
from spotgrad.settings import MissingSetting


def test_without_a_region_none_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(MissingSetting, match="no region is chosen; set AWS_REGION"):
        _ = AwsAccount().region


def test_a_configuration_that_names_no_such_profile_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(MissingSetting, match="nobody"):
        _ = AwsAccount().region
