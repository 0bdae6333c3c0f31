"""Write the boards as JSON into the chart: python -m deploy.boards (make manifests)."""

from pathlib import Path

from deploy.boards import cluster, node, scheduler, team

BOARDS = (cluster.BOARD, node.BOARD, team.BOARD, scheduler.BOARD)
FOLDER = Path(__file__).parents[1] / "chart/kubeshare/boards"


def files() -> dict[Path, str]:
    """What each board's file says."""
    return {FOLDER / f"{board.uid}.json": board.json() for board in BOARDS}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
