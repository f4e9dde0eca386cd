import torch

from worker_image.tasks.classifier import Classifier


def test_it_learns_which_of_two_numbers_is_larger() -> None:
    torch.manual_seed(0)
    task = Classifier(features=2, classes=2, hidden=[8, 8])
    x = torch.rand(256, 1, 2)
    batch = (x, x[:, 0].argmax(1))
    optimizer = torch.optim.Adam(task.parameters(), lr=0.05)
    for index in range(40):
        optimizer.zero_grad()
        task.training_step(batch, index).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
    metrics = task.validation_step(batch, 0)
    assert metrics["accuracy"].item() > 0.95
    assert metrics["loss"].item() < 0.2
    assert [tuple(each.shape) for each in task.parameters()][::2] == [(8, 2), (8, 8), (2, 8)]
