"""bench/compare_logits.py on logits of known divergence: what it prints of them, when it says "worse", and what it refuses."""

import sys

import numpy as np

from programs import ROOT, Case, main

sys.path.append(str(ROOT / "bench"))
import compare_logits  # noqa: E402
from compare_logits import Measure  # noqa: E402


def logits(*probabilities):
    """One text with these distributions, whatever the rows' offsets."""
    return np.log(np.array(probabilities)) + np.arange(len(probabilities))[:, None]


def noisy(want, scale, seed):
    rng = np.random.default_rng(seed)
    return [text + rng.normal(0, scale, text.shape) for text in want]


WANT = [np.random.default_rng(i).normal(0, 3, (20 + i, 50)) for i in range(12)]


class Figures(Case):

    def test_divergence_and_agreement_of_known_distributions(self):
        want = [logits([0.5, 0.25, 0.25]), logits([0.1, 0.2, 0.7], [0.25, 0.5, 0.25])]
        got = [logits([0.25, 0.5, 0.25]), logits([0.1, 0.2, 0.7], [0.25, 0.25, 0.5])]
        measured = Measure.of(got, want)
        # The first and third row diverge by ln 2 / 4 each, the second by nothing; only the second has the same best token.
        self.at_most(abs(compare_logits.divergence(measured.total) - np.log(2) / 6), 1e-12, "KL")
        self.at_most(abs(compare_logits.agreement(measured.total) - 1 / 3), 1e-12, "top-1")
        self.at_most(abs(measured.worst - np.log(2)), 1e-12, "largest error")
        self.equal(compare_logits.divergence(Measure.of(want, want).total), 0, "KL of the same logits")

    def test_divergence_is_from_the_truth(self):
        """KL(truth, got), not the other way round."""
        got = Measure.of([logits([0.5, 0.5])], [logits([0.9, 0.1])])
        self.at_most(abs(compare_logits.divergence(got.total) - (0.9 * np.log(1.8) + 0.1 * np.log(0.2))), 1e-12, "KL")

    def test_correlation_is_that_of_all_values(self):
        got = noisy(WANT, 1, 1)
        flat = np.corrcoef(np.concatenate([t.ravel() for t in got]), np.concatenate([t.ravel() for t in WANT]))[0, 1]
        self.at_most(abs(compare_logits.correlation(Measure.of(got, WANT).total) - flat), 1e-12, "correlation")

    def test_standard_error_is_that_of_the_mean_over_texts(self):
        """Texts of equal length whose divergences differ by a known amount: the bootstrap's error is their deviation over sqrt(n)."""
        ours, theirs = np.zeros((400, 9)), np.zeros((400, 9))
        ours[:, 6] = theirs[:, 6] = 10
        ours[:, 7] = np.random.default_rng(3).normal(2, 1, 400)
        apart, error = compare_logits.difference(compare_logits.divergence, ours, theirs)
        self.at_most(abs(apart - ours[:, 7].mean() / 10), 1e-12, "difference")
        self.at_most(abs(error / (ours[:, 7].std() / 10 / 20) - 1), 0.1, "its error")

    def test_other_shapes_and_values_that_are_not_finite_are_refused(self):
        for bad in (WANT[0][:-1], WANT[0][:, :-1], np.where(WANT[0] == WANT[0].max(), np.nan, WANT[0])):
            with self.assertRaises(ValueError):
                Measure.of([bad], [WANT[0]])
            self.compared += 1
        with self.assertRaises(ValueError):
            Measure.of(WANT[:-1], WANT)


class Row(Case):

    def cells(self, ours, theirs):
        line = compare_logits.row("file", Measure.of(ours, WANT), Measure.of(theirs, WANT))
        self.equal(line.count("|"), compare_logits.HEAD.splitlines()[0].count("|"), "columns")
        return [cell.strip() for cell in line.strip("|").split("|")]

    def test_worse_is_said_of_what_is_worse_beyond_noise(self):
        near, far, other = noisy(WANT, 0.3, 1), noisy(WANT, 0.5, 2), noisy(WANT, 0.3, 3)
        for ours, theirs, verdict in ((near, far, False), (far, near, True)):
            cells = self.cells(ours, theirs)
            self.equal((cells[3].endswith(" worse"), cells[8].endswith(" worse")), (verdict, verdict), cells)
        same = self.cells(near, near)
        self.equal((same[3], same[8]), ("+0.000000 ± 0.000000", "+0.000000 ± 0.000000"), "the same logits")
        self.equal(any("worse" in cell for cell in self.cells(near, other)), False, "noise of one size")

    def test_g4_stands_before_llama_cpp(self):
        cells = self.cells(noisy(WANT, 0.1, 1), noisy(WANT, 2, 2))
        self.at_least(float(cells[1]), float(cells[2]) + 0.1, "correlation")
        self.at_least(float(cells[5]), float(cells[4]) + 1, "largest error")
        self.at_least(float(cells[7]), float(cells[6]) + 0.1, "KL")
        self.equal((cells[3][0], cells[8][0]), ("+", "-"), "signs of the differences")


if __name__ == "__main__":
    main()
