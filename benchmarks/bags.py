"""How long it takes to read a bag, compared with rosbags' own loop over the same topics: `python -m benchmarks.bags`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Comparison
from capture_cp.base.checks import whole_number
from capture_cp.data.logged import LoggedTransitions

STATE, ACTION, CAMERA = "/joint_states", "/cmd", "/camera"
#: Target for the ratio of the loop's time to ours.
WANTED = 1 / 1.3


@dataclass(frozen=True)
class BenchBags:
    """Read the transitions of a bag of joint states and commands, with unneeded images in between."""

    messages: Annotated[int, tyro.conf.arg(help="Messages of both topics together.")] = 40_000
    joints: Annotated[int, tyro.conf.arg(help="Joints of the robot.")] = 7
    rounds: Annotated[int, tyro.conf.arg(help="How often each pair of jobs is timed, alternating.")] = 5

    def run(self, console: Console) -> None:
        """Time both ways for every kind of bag, and print the ratios."""
        whole_number("messages", self.messages, 100)
        table = Table(title=f"{self.messages:,} messages, median of {self.rounds} interleaved rounds (lowest - highest)")
        for column in ("bag", "time of rosbags' loop / ours", "target", "ours, messages / s"):
            table.add_column(column, justify="left" if column == "bag" else "right")
        with tempfile.TemporaryDirectory() as folder:
            for storage, changing in (("MCAP", False), ("SQLITE3", False), ("MCAP", True)):
                path = Path(folder) / f"{storage}{changing}"
                write_bag(path, storage, self.messages // 2, self.joints, changing)
                name = f"{storage.lower()}{', names of changing length' if changing else ''}"
                row = comparison(name, path).time(self.rounds)
                low, high = row["range"]
                mark = "" if row["speed_up"] >= WANTED else "  missed"
                ratio, rate = f"{row['speed_up']:.2f} ({low:.2f} - {high:.2f})", self.messages / row["seconds"]
                table.add_row(name, ratio, f"{WANTED:.2f}{mark}", f"{rate:,.0f}")
        console.print(table)


def comparison(name: str, path: Path) -> Comparison:
    """Our reader, up to the arrays of transitions, against a loop that deserialises every message and keeps nothing."""
    from rosbags.highlevel import AnyReader

    columns = {"state": f"{STATE}.position", "action": f"{ACTION}.data", "following": f"{STATE}.position"}

    def theirs() -> None:
        with AnyReader([path]) as reader:
            wanted = [connection for connection in reader.connections if connection.topic in (STATE, ACTION)]
            for connection, _, raw in reader.messages(connections=wanted):
                reader.deserialize(raw, connection.msgtype)

    return Comparison(name, lambda: LoggedTransitions(path, **columns).read(), "rosbags' loop", theirs, WANTED)


def write_bag(path: Path, storage: str, steps: int, joints: int, changing: bool) -> None:
    """A bag of `steps` states and commands of so many joints; with `changing`, the lengths of names change."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    rng, store = np.random.default_rng(0), get_typestore(Stores.ROS2_HUMBLE)
    types: Any = store.types
    kinds = {
        STATE: "sensor_msgs/msg/JointState",
        ACTION: "std_msgs/msg/Float64MultiArray",
        CAMERA: "std_msgs/msg/UInt8MultiArray",
    }
    layout, image = types["std_msgs/msg/MultiArrayLayout"]([], 0), np.zeros(10_000, dtype=np.uint8)
    with Writer(path, version=9, storage_plugin=getattr(StoragePlugin, storage)) as writer:
        to = {topic: writer.add_connection(topic, kind, typestore=store) for topic, kind in kinds.items()}

        def write(topic: str, stamp: int, *parts: Any) -> None:
            writer.write(to[topic], stamp, store.serialize_cdr(types[kinds[topic]](*parts), kinds[topic]))

        for step in range(steps):
            stamp, values = 10**18 + step * 10**7, rng.random((4, joints))
            when = types["builtin_interfaces/msg/Time"](stamp // 10**9, stamp % 10**9)
            frame = "base" + "x" * int(rng.integers(20)) * changing
            header = types["std_msgs/msg/Header"](when, frame)
            write(STATE, stamp, header, [f"joint_{i}" for i in range(joints)], *values[:3])
            if step % 3 == 0:
                write(CAMERA, stamp + 10**6, layout, image)
            write(ACTION, stamp + 2 * 10**6, layout, values[3])


def main() -> None:
    """Run it from the command line."""
    tyro.cli(BenchBags, prog="python -m benchmarks.bags").run(Console())


if __name__ == "__main__":
    main()
