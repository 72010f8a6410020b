"""The matrix product of `lathe gemm export` in PyTorch, as far as no GPU is needed: a library stands in."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch

from lathe_gym import load
from lathe_gym.errors import KernelError
from lathe_gym.gemm import Gemm, _arguments, _dense

LIBRARY = """
extern "C" {
const char* lathe_gemm_last_error() { return "there is no GPU here"; }
int lathe_gemm_create(void** handle) { *handle = 0; return 3; }
int lathe_hgemm() { return 3; }
}
"""
LAYOUTS = {"nn": 0, "tn": 1, "nt": 2, "tt": 3}


class Product(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.package = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.package / "lib").mkdir()
        source = cls.package / "library.cpp"
        source.write_text(LIBRARY)
        compiler = os.environ.get("CXX", "c++")
        library = cls.package / "lib" / "liblathe_gemm.so"
        subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        cls.gemm = load(cls.package)

    def test_its_package_is_a_product(self):
        self.assertIsInstance(self.gemm, Gemm)

    def test_tensors_that_are_not_on_a_gpu_are_refused(self):
        a = torch.zeros(4, 8, dtype=torch.float16)
        with self.assertRaisesRegex(TypeError, "a is on cpu"):
            self.gemm(a, a.t())

    def test_a_fault_of_the_library_is_told(self):
        with self.assertRaisesRegex(KernelError, "there is no GPU here"):
            self.gemm._refuse(3)
        self.gemm._refuse(0)

    def test_the_layout_says_where_k_is_dense(self):
        a, b = torch.zeros(16, 24, dtype=torch.float16), torch.zeros(24, 40, dtype=torch.float16)
        out = torch.zeros(16, 40, dtype=torch.float16)
        for layout, of_a, of_b, lda, ldb in (
            ("nn", a, b, 24, 40),
            ("tn", a, b.t().contiguous().t(), 24, 24),
            ("nt", a.t().contiguous().t(), b, 16, 40),
            ("tt", a.t().contiguous().t(), b.t().contiguous().t(), 16, 24),
        ):
            asked = _arguments(_dense(of_a), _dense(of_b), out, 1.0, 0.0)
            self.assertEqual(asked[:6], (LAYOUTS[layout], 16, 40, 24, 1.0, of_a.data_ptr()), layout)
            self.assertEqual((asked[6], asked[7], asked[8]), (lda, of_b.data_ptr(), ldb), layout)
            self.assertEqual(asked[9:], (0.0, out.data_ptr(), 40, 0), layout)

    def test_rows_with_gaps_are_taken_and_others_copied(self):
        wide = torch.zeros(16, 64, dtype=torch.float16)
        rows = wide[:, :24]
        self.assertIs(_dense(rows), rows)
        strided = wide[:, ::2]
        self.assertIsNot(_dense(strided), strided)

    def test_it_becomes_an_operation_of_pytorch(self):
        if not hasattr(torch.library, "custom_op"):
            with self.assertRaisesRegex(KernelError, "custom_op"):
                self.gemm.register()
            self.skipTest(f"torch {torch.__version__} has no custom_op")
        operation = self.gemm.register("lathe_test", "product")
        self.assertIs(operation, torch.ops.lathe_test.product)

        def meta(*shape, dtype=torch.float16):
            return torch.empty(*shape, dtype=dtype, device="meta")

        result = operation(meta(16, 24), meta(24, 40))
        self.assertEqual((tuple(result.shape), result.dtype), ((16, 40), torch.float16))
        self.assertEqual(operation(meta(16, 24), meta(24, 40), 2.0, 1.0, meta(16, 40)).shape, (16, 40))
        with self.assertRaisesRegex(ValueError, "do not multiply"):
            operation(meta(16, 24), meta(16, 40))
        with self.assertRaisesRegex(ValueError, "c is"):
            operation(meta(16, 24), meta(24, 40), c=meta(16, 16))
        with self.assertRaisesRegex(TypeError, "torch.float16"):
            operation(meta(16, 24, dtype=torch.float32), meta(24, 40))
        with self.assertRaisesRegex(ValueError, "no matrix"):
            operation(meta(2, 16, 24), meta(24, 40))
        with self.assertRaises(NotImplementedError):
            operation(torch.zeros(4, 8, dtype=torch.float16), torch.zeros(8, 4, dtype=torch.float16))


if __name__ == "__main__":
    unittest.main()
