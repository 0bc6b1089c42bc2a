"""Draws the pictures of the documentation into docs/images, each with its own seed.

`python docs/make_figures.py` draws all of them in a few minutes, `python docs/make_figures.py rank spread` only these two.
"""

import sys

from figures.angles import angles_picture
from figures.arm import arm_picture
from figures.box_plan import plan_picture
from figures.certificates import dial_picture
from figures.choosing import alpha_study, leaf_study, neighbour_study, size_study
from figures.closed_loop import closed_loop_picture
from figures.episode import episode_animation
from figures.episodes import episodes_picture
from figures.examples import block_picture, panda_picture, wheels_picture
from figures.gap import gap_cube_picture, gap_elbow_picture, gap_so101_picture
from figures.guarantee import draws_picture, rank_picture, spread_picture
from figures.horizon import horizon_picture
from figures.idea import idea_picture, own_data_picture, region_picture
from figures.methods import methods_pictures, neighbour_picture, rod_picture
from figures.monitor import monitor_picture
from figures.overview import overview_picture
from figures.own_page import own_page_picture
from figures.packages import packages_picture
from figures.screenshots import demo_report_picture, report_picture, view_marble_picture
from figures.shelf import shelf_film
from figures.speed import speed_picture
from figures.task_regions import marble_regions_picture, peg_regions_picture

PICTURES = {
    "packages": packages_picture,
    "overview": overview_picture,
    "region": region_picture,
    "idea": idea_picture,
    "rank": rank_picture,
    "spread": spread_picture,
    "draws": draws_picture,
    "methods": methods_pictures,
    "neighbours": neighbour_picture,
    "rod": rod_picture,
    "angles": angles_picture,
    "monitor": monitor_picture,
    "own-data": own_data_picture,
    "example-wheels": wheels_picture,
    "example-block": block_picture,
    "example-peg": panda_picture,
    "arm-region": arm_picture,
    "episode": episode_animation,
    "episodes": episodes_picture,
    "shelf": shelf_film,
    "view-marble": view_marble_picture,
    "view-own": own_page_picture,
    "plan": plan_picture,
    "report": report_picture,
    "demo-report": demo_report_picture,
    "marble-regions": marble_regions_picture,
    "peg-regions": peg_regions_picture,
    "horizon": horizon_picture,
    "closed-loop": closed_loop_picture,
    "certificate-dial": dial_picture,
    "speed": speed_picture,
    "gap-cube": gap_cube_picture,
    "gap-elbow": gap_elbow_picture,
    "gap-so101": gap_so101_picture,
    "choosing-k": neighbour_study,
    "choosing-alpha": alpha_study,
    "choosing-leaf": leaf_study,
    "choosing-size": size_study,
}


def main() -> None:
    """Draw the pictures named on the command line, or all."""
    unknown = [name for name in sys.argv[1:] if name not in PICTURES]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(PICTURES)}")
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()


if __name__ == "__main__":
    main()
