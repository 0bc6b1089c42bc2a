"""One data set in every format, written by the packages' own writers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capture_cp import Transitions, write_transitions

STEP = 10_000_000  # ns between actions
START = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Runs:
    """Runs of a pushed point: one row per step, the last of each without what follows."""

    run: np.ndarray
    state: np.ndarray
    action: np.ndarray

    @classmethod
    def made(cls, runs=8, steps=40, seed=0, axes=2):
        rng = np.random.default_rng(seed)
        state, action = np.empty((runs, steps, axes)), rng.uniform(-0.1, 0.1, (runs, steps, axes))
        state[:, 0] = rng.random((runs, axes))
        for t in range(1, steps):
            state[:, t] = np.clip(state[:, t - 1] + action[:, t - 1] + 0.01 * rng.standard_normal((runs, axes)), 0, 1)
        return cls(np.repeat(np.arange(runs), steps), state.reshape(-1, axes), action.reshape(-1, axes))

    @property
    def ends(self):
        """Whether a row is the last of its run, (n,)."""
        return np.append(self.run[1:] != self.run[:-1], True)

    def each(self):
        for run in np.unique(self.run):
            yield int(run), self.state[self.run == run], self.action[self.run == run]

    def transitions(self) -> Transitions:
        kept = np.flatnonzero(~self.ends)
        names = ["x", "y"], ["push_x", "push_y"], ["next_x", "next_y"]
        parts = self.state[kept], self.action[kept], self.state[kept + 1]
        return Transitions.from_arrays(*parts, *names, episode=self.run[kept], episode_name="run")

    def csv(self, path: Path, name: str) -> Path:
        """A transition per row; a run is called by what stands before its number in `name`."""
        log = self.transitions()
        write_transitions(path, replace(log, episode=np.array([f"{name}{run}" for run in log.episode])))
        return path

    def lerobot(self, folder: Path, version: str) -> Path:
        import pyarrow
        from pyarrow import parquet

        (folder / "meta").mkdir(parents=True)
        (folder / "data" / "chunk-000").mkdir(parents=True)
        (folder / "videos").mkdir()
        (folder / "videos" / "top.mp4").write_bytes(b"no video")
        (folder / "meta" / "info.json").write_text(json.dumps({"codebase_version": version, "fps": 100}))
        table = pyarrow.table(
            {
                "observation.state": lists(self.state, fixed=version == "v3.0"),
                "action": lists(self.action, fixed=version == "v3.0"),
                "timestamp": np.arange(len(self.run)) * 0.01,
                "frame_index": np.arange(len(self.run)),
                "episode_index": self.run,
                "index": np.arange(len(self.run)),
            }
        )
        if version == "v3.0":
            half = len(self.run) // 2 + 3  # in the middle of a run
            for number, part in enumerate((table.slice(0, half), table.slice(half))):
                parquet.write_table(part, folder / f"data/chunk-000/file-{number:03}.parquet", row_group_size=50)
        else:
            for run in np.unique(self.run):
                rows = np.flatnonzero(self.run == run)
                parquet.write_table(table.take(rows), folder / f"data/chunk-000/episode_{run:06}.parquet")
        return folder

    def bags(self, folder: Path, storage: str, **changes) -> Path:
        folder.mkdir()
        for run, state, action in self.each():
            bag(folder / f"run_{run}", state, action, storage, **changes)
        return folder

    def robomimic(self, path: Path) -> Path:
        import h5py

        with h5py.File(path, "w") as file:
            for run, state, action in self.each():
                group = file.create_group(f"data/demo_{run}")
                group.create_dataset("obs/robot0_eef_pos", data=state)
                group.create_dataset("actions", data=action, compression="gzip", chunks=(10, action.shape[1]))
                group.create_dataset("obs/image", data=np.zeros((len(state), 4, 4, 3), dtype=np.uint8))
                group.create_dataset("rewards", data=np.zeros(len(state)))
        return path


def lists(values: np.ndarray, fixed: bool):
    import pyarrow

    flat = pyarrow.array(values.ravel())
    if fixed:
        return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pyarrow.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32) * values.shape[1], flat)


def bag(
    path: Path, state: np.ndarray, action: np.ndarray, storage: str, late=0, step=STEP, skip=(), every=1, names=False,
    header=None, packed=False,
) -> Path:  # fmt: skip
    """A bag of joint states and, a millisecond later, commands; images in between that nobody wants."""
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    time, head = types["builtin_interfaces/msg/Time"], types["std_msgs/msg/Header"]
    writer = Writer(path, version=9, storage_plugin=getattr(StoragePlugin, storage))
    if packed:
        writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        kinds = {
            "/joint_states": "sensor_msgs/msg/JointState",
            "/cmd": "std_msgs/msg/Float64MultiArray",
            "/camera": "std_msgs/msg/UInt8MultiArray",
        }
        to = {topic: writer.add_connection(topic, kind, typestore=store) for topic, kind in kinds.items()}
        layout = types["std_msgs/msg/MultiArrayLayout"]([], 0)

        def write(topic, stamp, *parts):
            message = types[kinds[topic]](*parts)
            writer.write(to[topic], int(stamp), store.serialize_cdr(message, kinds[topic]))

        for i, (s, a) in enumerate(zip(state, action)):
            stamp = START + i * step
            joints = [f"joint {'x' * (i % 5 if names else 0)}{j}" for j in range(len(s))]
            when = stamp if header is None else int(header[i])
            if i >= late and i not in skip and i % every == 0:
                stamped = head(time(when // 10**9, when % 10**9), "base")
                write("/joint_states", stamp, stamped, joints, s, np.zeros(0), np.zeros(len(s)))
            write("/camera", stamp + 500_000, layout, np.zeros(1000, dtype=np.uint8))
            write("/cmd", stamp + 1_000_000, layout, a)
    return path
