"""The paper's six methods, as combinations of the same parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.capture.capture import Capture
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.groups import Groups, OneGroup, Tree, Uncalibrated
from capture_cp.conformal.scores import Model, NearestParticles, ParticleBox, Score
from capture_cp.spaces.metrics import Metric
from capture_cp.spaces.strata import Strata


@dataclass(frozen=True)
class Parts:
    """Parts of a method: particles L, neighbour k, the metric, and the tree with and without strata."""

    n_particles: int
    k: int
    metric: Metric | None
    tree: Tree

    @property
    def blind_tree(self) -> Tree:
        params = self.tree.get_params(deep=False)
        return Tree(**(params | {"per_stratum": False, "stratum_input": "none", "min_stratum": None}))

    @property
    def angles(self) -> tuple[int, ...]:
        """The configuration's angles, whose differences LUCCa wraps."""
        if self.metric is None or not self.metric.angles(1 << 6):
            return ()
        if self.metric.dims is None:
            raise CaptureError(f"lucca needs the number of joints of {self.metric!r}; pass it one weight per joint.")
        return self.metric.angles(self.metric.dims)


RECIPES: dict[str, Callable[[Parts], tuple[Score, Groups]]] = {
    "particles": lambda p: (ParticleBox(), Uncalibrated()),
    "pcp": lambda p: (NearestParticles(1, p.metric), OneGroup()),
    "lucca": lambda p: (Mahalanobis(p.angles), p.blind_tree),
    "no-strata": lambda p: (NearestParticles(p.k, p.metric), p.blind_tree),
    "capture-k1": lambda p: (NearestParticles(1, p.metric), p.tree),
    "capture": lambda p: (NearestParticles(p.k, p.metric), p.tree),
}

METHODS = tuple(RECIPES)


def method(
    name: str,
    model: Model,
    strata: Strata,
    *,
    n_particles: int = 16,
    k: int | None = None,
    metric: Metric | None = None,
    tree: Tree | None = None,
    seed: int = 0,
) -> Capture:
    """One of the paper's methods, ready to `fit`.

    | name         | score                           | groups                                        |
    |--------------|---------------------------------|-----------------------------------------------|
    | `particles`  | the particles' bounding box     | none: uncalibrated                            |
    | `pcp`        | nearest particle                | one                                           |
    | `lucca`      | Mahalanobis, `model.gaussian`   | tree on state and action                      |
    | `no-strata`  | k-th nearest particle           | tree on state and action                      |
    | `capture-k1` | nearest particle                | tree on state, action and next stratum        |
    | `capture`    | k-th nearest particle           | tree on state, action and next stratum        |

    Args:
        k: which neighbour is used, by default L // 2.
        metric: by default Euclidean.
        tree: settings of the tree; by default the paper's, `Tree(per_stratum=False)`.
    """
    recipe = RECIPES[known_name("method", name, METHODS)]
    k = k if k is not None else max(1, n_particles // 2)
    score, groups = recipe(Parts(n_particles, k, metric, tree if tree is not None else Tree(per_stratum=False)))
    return Capture(model, strata, score=score, groups=groups, n_particles=n_particles, seed=seed)
