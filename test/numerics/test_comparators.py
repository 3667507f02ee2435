"""Each comparator rejects a wrong result: a numerics test that cannot fail would prove nothing."""

import unittest

import numpy as np

import common
from common import Case


class Comparators(Case):

    def rejects(self, problem):
        self.compared += 1
        self.assertIsNotNone(problem, "a wrong result was accepted")

    def accepts(self, problem):
        self.ok(problem, "a right result was rejected")

    def test_differs_rejects_one_value_out_of_bound_shape_and_nan(self):
        want = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
        self.accepts(common.differs(want + np.float32(1e-4), want, 1e-3))
        for wrong in (0.002, np.inf, np.nan):
            got = want.copy()
            got[3, 5] += np.float32(wrong)
            self.rejects(common.differs(got, want, 1e-3))
        self.rejects(common.differs(want[:3], want, 1e-3))
        self.rejects(common.differs(want[:0], want[:0], 1e-3))

    def test_differs_rejects_rows_in_another_order(self):
        want = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.rejects(common.differs(want[[1, 0, 2]], want, 1e-3))

    def test_bits_differ_rejects_the_last_bit(self):
        want = np.array([1.0, -2.5, 3e-9], np.float32)
        self.accepts(common.bits_differ(want.copy(), want))
        for i in range(3):
            got = want.copy()
            got[i] = np.nextafter(got[i], np.float32(9))
            self.rejects(common.bits_differ(got, want))
        self.rejects(common.bits_differ(want.astype(np.float64), want))
        self.rejects(common.bits_differ(np.full(3, np.nan, np.float32), np.full(3, np.nan, np.float32)))

    def test_greedy_differs_allows_only_near_ties(self):
        tops = np.array([[5.0, 1.0], [4.0, 3.999], [7.0, 2.0]])
        self.accepts(common.greedy_differs([1, 2, 3], [1, 2, 3], tops))
        self.accepts(common.greedy_differs([1, 9, 9], [1, 2, 3], tops))
        self.rejects(common.greedy_differs([9, 2, 3], [1, 2, 3], tops))
        self.rejects(common.greedy_differs([1, 2, 9], [1, 2, 3], tops))
        self.rejects(common.greedy_differs([1, 2], [1, 2, 3], tops))
        self.rejects(common.greedy_differs([1, 9, 9], [1, 2, 3], tops, least=2))
        self.rejects(common.greedy_differs([], [], tops))

    def test_correlation_falls_for_noise_constants_and_nan(self):
        rng = np.random.default_rng(1)
        want = rng.standard_normal((7, 1024))
        self.at_least(common.correlation(want * 2, want), 0.999999, "scaled copy")
        self.at_most(common.correlation(want + 0.05 * rng.standard_normal(want.shape), want), 0.9995, "noise")
        self.at_most(common.correlation(np.zeros_like(want), want), -1, "constant")
        self.at_most(common.correlation(np.where(want > 3, np.nan, want), want), -1, "NaN")
        self.at_most(common.correlation(want[:6], want), -1, "shape")

    def test_experts_differ_allows_only_small_margins(self):
        want = np.array([[1, 4], [2, 3]])
        self.accepts(common.experts_differ(want[:, ::-1], want, [1.0, 1.0]))
        self.accepts(common.experts_differ([[1, 4], [2, 5]], want, [1.0, 1e-5]))
        self.rejects(common.experts_differ([[1, 4], [2, 5]], want, [1.0, 0.1]))
        self.rejects(common.experts_differ(want[:1], want, [1.0, 1.0]))

    def test_a_case_that_compares_nothing_fails(self):

        class Empty(Case):

            def test_nothing(self):
                pass

        result = unittest.TestResult()
        Empty("test_nothing").run(result)
        self.equal(len(result.failures), 1, "failures of an empty case")

    def test_stored_near_ties_are_rare(self):
        """The greedy comparison may stop at a near-tie: nearly all steps must lie before one, or it would be empty."""
        steps = ties = 0
        for path in sorted(common.FIXTURES.glob("*/reference.npz")):
            reference = np.load(path)
            for name in reference.files:
                if name.endswith("_greedy_top5_logits"):
                    margins = reference[name][:, 0] - reference[name][:, 1]
                    steps += len(margins)
                    ties += int(np.count_nonzero(margins < common.TIE))
        self.at_least(steps, 1000, "greedy steps")
        self.at_most(ties / steps, 0.01, "share of near-ties")

    def test_every_quantised_file_has_a_reference_and_a_rival(self):
        rivals = common.llama_correlation()
        for model in ("e-style", "dense-keqv", "moe"):
            for kind, _ in common.quantised_files(model):
                self.ok(None if (model, kind) in rivals else "not in crosscheck.txt", f"{model} {kind}")


if __name__ == "__main__":
    common.main()
