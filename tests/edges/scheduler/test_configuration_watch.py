"""Following the configuration file: what is applied, what is refused, what waits."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.edges.scheduler.configuration_watch import Update, updates
from tests.documents.unreadable import UNREADABLE
from tests.patience import PATIENCE_S

BIN_PACK = "profiles: [{plugins: {score: {enabled: [{name: BinPack}]}}}]"
SPREAD = """
profiles:
  - plugins:
      score: {disabled: [{name: "*"}], enabled: [{name: Spread}]}
"""


class Rounds:
    """Lets the watch look again when the test says so."""

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)
        self.looked = asyncio.Semaphore(0)

    async def sleep(self, _seconds: float) -> None:
        self.looked.release()
        await self.go.acquire()


class Following:
    """A file, and the updates that its changes came to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rounds = Rounds()
        self.found: list[Update] = []
        self.running = configuration_file.load(str(file))

    async def follow(self) -> None:
        stream = updates(str(self.file), self.running, IN_TREE, sleep=self.rounds.sleep)
        async with aclosing(stream):
            async for update in stream:
                self.found.append(update)

    def remove(self) -> None:
        self.file.unlink()

    async def write(self, text: str) -> Update:
        """Change the file; the update of that."""
        before = len(self.found)
        replacement = self.file.with_suffix(".new")
        replacement.write_text(text)
        replacement.replace(self.file)  # a new inode, as when a ConfigMap changes
        self.rounds.go.release()
        await self.rounds.looked.acquire()
        [update] = self.found[before:]
        return update


async def run(file: Path, *steps: str) -> list[Update]:
    following = Following(file)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(following.follow())
        await following.rounds.looked.acquire()
        assert following.found == []
        answers = [await following.write(step) for step in steps]
        task.cancel()
    return answers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    file.write_text(BIN_PACK)
    return file


async def test_new_profiles_arrive_made(file: Path) -> None:
    [update] = await run(file, SPREAD)
    assert (update.problem, update.for_restart) == ("", ())
    [profile] = update.profiles
    assert [type(plugin).__name__ for plugin, _ in profile.scores] == ["Spread"]


async def test_what_cannot_be_exchanged_is_named(file: Path) -> None:
    [update] = await run(file, SPREAD + "\nserver: {port: 4}\nparallelBinds: 3\n")
    assert update.for_restart == ("server", "parallelBinds")
    assert update.profiles


async def test_other_dialects_wait_for_a_restart(file: Path) -> None:
    [update] = await run(file, "profiles: [{dialects: [{name: sharedgpu, args: {a: 1}}]}]")
    assert update.for_restart == ("profiles[].dialects",)
    assert update.profiles


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles: 3", "profiles: Expected `array`"),
        ("a: [", "expected"),
        *UNREADABLE.items(),
        ("profiles: [{plugins: {score: {enabled: [{name: Nobody}]}}}]", "no plugin Nobody"),
        ("profiles: [{schedulerName: other}]", "the schedulerNames changed"),
    ],
)
async def test_a_file_that_cannot_be_used_says_why(file: Path, text: str, said: str) -> None:
    [update] = await run(file, text)
    assert said in update.problem
    assert update.problem.startswith(f"{file}: ")
    assert update.profiles == ()


async def test_after_a_problem_the_old_text_is_news_again(file: Path) -> None:
    refused, again = await run(file, "profiles: 3", BIN_PACK)
    assert refused.problem
    assert again.profiles


async def test_a_file_that_goes_away_changes_nothing(file: Path) -> None:
    following = Following(file)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(following.follow())
        await following.rounds.looked.acquire()
        following.remove()
        for _ in range(2):
            following.rounds.go.release()
            await following.rounds.looked.acquire()
        [update] = following.found
        assert "No such file" in update.problem
        assert (await following.write(SPREAD)).profiles
        task.cancel()


async def test_a_key_of_an_earlier_version_is_a_warning_in_the_log(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [update] = await run(file, "earmarkSeconds: 5")
    assert update.for_restart == ("reservationSeconds",)
    said = [record.__dict__["fields"]["message"] for record in caplog.records]
    assert said == [f"{file}: earmarkSeconds is called reservationSeconds now"]
