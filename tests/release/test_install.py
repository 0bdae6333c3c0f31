"""What is shown while packages are installed, from what pip says."""

from deploy.release.install import Progress

LOCK = """# A lock.
aiohttp==3.14.5 \\
    --hash=sha256:00
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:00
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:00
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:00
cel-python==0.5.0
"""
SAID = """Looking in links: /opt/wheels
Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Ignoring numpy: markers 'python_full_version >= "3.12"' don't match your environment
Collecting aiohttp==3.14.5 (from -r demo.lock (line 2))
  Downloading aiohttp-3.14.5-cp311-cp311-manylinux2014_x86_64.whl.metadata (8.1 kB)
  Downloading aiohttp-3.14.5-cp311-cp311-manylinux2014_x86_64.whl (1.9 MB)
Requirement already satisfied: numpy==2.4.6 in ./site-packages (from -r demo.lock (line 4))
Collecting cel-python==0.5.0 (from -r demo.lock (line 10))
  Using cached cel_python-0.5.0-py3-none-any.whl (600 kB)
""".splitlines(keepends=True)


def progress(lines: list[str], lock: str = LOCK) -> Progress:
    made = Progress(lock)
    for line in lines:
        made.read(line)
    return made


def test_packages_and_their_size_are_counted_as_they_come() -> None:
    assert progress(SAID[:2]).text(set()) == "  0 of 3 packages, 0 MB"
    assert progress(SAID[:6]).text(set()) == "  1 of 3 packages, 2 MB"
    assert progress(SAID).text(set()) == "  3 of 3 packages, 2 MB"


def test_packages_are_counted_again_as_they_are_unpacked() -> None:
    unpacking = [*SAID, "Installing collected packages: cel_python, aiohttp\n"]
    assert progress(unpacking).text({"numpy"}) == "  unpacked 0 of 2 packages"
    assert progress(unpacking).text({"numpy", "cel-python"}) == "  unpacked 1 of 2 packages"


def test_nothing_is_shown_of_what_has_no_lock() -> None:
    assert progress(SAID, lock="").text(set()) == ""
