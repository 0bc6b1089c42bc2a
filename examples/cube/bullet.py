"""The published cube in Bullet, as a simulator: `capture gap bullet:cube tosses.parquet` (pip install pybullet)."""

import numpy as np
import pybullet as p


def cube(qpos, qvel, ctrl, steps, seconds):
    """Poses (n, steps, 7) from poses (n, 7) and velocities (n, 6) as MuJoCo has them for a free joint."""
    p.setGravity(0, 0, -9.81, physicsClientId=p.connect(p.DIRECT))
    p.setPhysicsEngineParameter(fixedTimeStep=seconds, numSubSteps=5)
    body = p.createMultiBody(0.37, p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.0524] * 3), basePosition=[0, 0, 9])
    p.changeDynamics(body, -1, localInertiaDiagonal=[0.00081] * 3, linearDamping=0, angularDamping=0, collisionMargin=0)
    for one in (body, p.createMultiBody(0, p.createCollisionShape(p.GEOM_PLANE))):
        p.changeDynamics(one, -1, lateralFriction=0.18**0.5, restitution=0.125**0.5)  # Bullet multiplies two
    poses = np.empty((len(qpos), steps, 7))
    for i, (x, y, z, qw, *q) in enumerate(qpos.tolist()):
        p.resetBasePositionAndOrientation(body, [0, 0, 9], [0, 0, 0, 1])
        for _ in range(2):  # far from the ground, so that contacts of the last start are forgotten
            p.stepSimulation()
        p.resetBasePositionAndOrientation(body, [x, y, z], [*q, qw])
        p.resetBaseVelocity(body, qvel[i, :3], p.rotateVector([*q, qw], qvel[i, 3:]))  # in the world's frame
        for step in range(steps):
            p.stepSimulation()
            position, turned = p.getBasePositionAndOrientation(body)
            poses[i, step] = *position, turned[3], *turned[:3]
    p.disconnect()
    return poses


cube.velocities = True  # the form with velocities, for several steps at once
