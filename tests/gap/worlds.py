"""Small logs of simulated robots: a puck that slides and spins, dropped balls, and a two-joint arm with position servos."""

import mujoco
import numpy as np
import pyarrow
import pyarrow.parquet

BALL = """<mujoco><option timestep="0.005"/><worldbody><geom type="plane" size="5 5 .1"/>
<body name="ball" pos="0 0 1"><freejoint name="ball"/><geom type="sphere" size="0.05" mass="0.1" solref="{solref} 1"/></body>
</worldbody></mujoco>"""

ARM = """<mujoco><option timestep="0.01"/><worldbody><body name="upper"><joint name="lift" axis="0 1 0" damping="0.5"/>
<geom type="capsule" size="0.02" fromto="0 0 0 .2 0 0" contype="0" conaffinity="0"/>
<body name="lower" pos=".2 0 0"><joint name="bend" axis="0 1 0" damping="0.5"/>
<geom type="capsule" size="0.02" fromto="0 0 0 .2 0 0" contype="0" conaffinity="0"/><site name="tip" pos=".2 0 0"/>
</body></body></worldbody>
<actuator><position name="lift" joint="lift" kp="{kp}"/><position name="bend" joint="bend" kp="{kp}"/></actuator></mujoco>"""

POSE = ("px", "py", "pz", "qw", "qx", "qy", "qz", "vx", "vy", "vz", "wx", "wy", "wz")


def write(path, columns):
    """Columns by name as a Parquet file."""
    pyarrow.parquet.write_table(pyarrow.table({name: np.asarray(column) for name, column in columns.items()}), path)
    return path


def drops(path, episodes=12, rows=30, solref=0.02, seed=0, noise=0.0):
    """Balls that are dropped and bounce, with a row every 0.02 s."""
    rng, model = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(BALL.format(solref=solref))
    table = {name: [] for name in ("episode", "t", *POSE)}
    for episode in range(episodes):
        data = mujoco.MjData(model)
        data.qpos[:3], data.qvel[:3] = [0, 0, rng.uniform(0.1, 0.5)], rng.normal(0, 0.3, 3)
        for row in range(rows):
            values = np.concatenate([data.qpos, data.qvel])
            values[:3] += noise * rng.standard_normal(3)
            for name, value in zip(table, [episode, 0.02 * row, *values]):
                table[name].append(value)
            mujoco.mj_step(model, data, 4)
    return write(path, table)


def reaches(path, episodes=12, rows=40, kp=20.0, seed=0, names=("lift", "bend")):
    """Arms that follow slow commands, with a row every 0.02 s; `names` are the log's names of the joints."""
    rng, model = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(ARM.format(kp=kp))
    table = {"motion": [], "time": []} | {f"{name}_{end}": [] for end in ("qpos", "qvel", "ctrl") for name in names}
    for episode in range(episodes):
        data, phase = mujoco.MjData(model), rng.uniform(0, 6, 2)
        for row in range(rows):
            data.ctrl[:] = 0.5 * np.sin(0.1 * row + phase)
            for name, value in zip(table, [f"m{episode}", 0.02 * row, *data.qpos, *data.qvel, *data.ctrl]):
                table[name].append(value)
            mujoco.mj_step(model, data, 2)
    return write(path, table)
