"""Exported kernels as functions of PyTorch, against PyTorch on the CPU."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch

from lathe_gym import load
from lathe_gym.kernel import _DTYPES, KernelError, _value

SOURCE = Path(os.environ["LATHE_SOURCE"])
UPDATE = """
name = "update"
dims = { n = [1, 64], m = [2, 512] }
where = "m % 2 == 0"
tensor = [{ name = "x", shape = ["n", "m"] }, { name = "state", shape = ["n", "m"], role = "inout" }]
graph = \"\"\"
state = add(state, x)
total = sum(x, axis = 1)
\"\"\"
output = [{ name = "state" }, { name = "total" }]
baselines = ["naive"]
shape = [{ name = "small", n = 16, m = 256 }]
"""


SCALED = """
name = "scaled_DTYPE"
dims = { n = [1, 64] }
tensor = [{ name = "x", shape = ["n"] }, { name = "alpha", role = "scalar", dtype = "DTYPE" }]
graph = \"\"\"
a = cast(alpha, dtype = "fp32")
y = mul(x, a)
\"\"\"
baselines = ["naive"]
shape = [{ name = "small", n = 16 }]
"""

ROWS = """
name = "rows"
dims = { R = [1, 64], E = [64, 256], D = [1, 32] }
tensor = [
  { name = "offsets", shape = ["R + 1"], role = "index", gen = { kind = "index", limit = "E", order = "offsets" } },
  { name = "x", shape = ["E", "2 * D"] },
]
graph = "y = segment_sum(x, offsets)"
baselines = ["naive"]
shape = [{ R = 16, E = 128, D = 8 }]
"""


def shipped(name: str) -> str:
    return (SOURCE / "tasks" / f"{name}.toml").read_text()


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        os.environ["XDG_CACHE_HOME"] = str(cls.folder / "cache")
        cls.packages = {}

    def package(self, name: str, task: str, candidate: str = "") -> Path:
        """The candidate, with the naive build where it does not serve; without one the naive build."""
        if name not in self.packages:
            file = self.folder / f"{name}.toml"
            file.write_text(task)
            out = self.folder / name
            arguments = [str(file), str(SOURCE / "device"), str(out)]
            if candidate:
                kernel = self.folder / f"{name}.cpp"
                kernel.write_text(candidate)
                arguments.append(str(kernel))
            subprocess.run([os.environ["LATHE_EXPORT_KERNEL"], *arguments], check=True)
            self.packages[name] = out
        return self.packages[name]

    def test_dims_that_the_kernel_does_not_serve_go_to_the_fallback(self):
        text = (SOURCE / "tests" / "library" / "softmax_rows.lathe.cpp").read_text()
        narrow = text.replace('requires = "cols <= 65536"', 'requires = "cols % 8 == 0"')
        self.assertNotEqual(text, narrow)
        kernel = load(self.package("softmax_rows", shipped("softmax_rows"), narrow))
        for rows, cols in ((64, 512), (64, 511), (1, 1)):
            x = torch.randn(rows, cols)
            torch.testing.assert_close(kernel(x), torch.softmax(x, -1))

    def test_layer_norm_is_pytorchs(self):
        kernel = load(self.package("layer_norm", shipped("layer_norm")))
        for tokens, features in ((512, 768), (3, 1000), (1, 1), (64, 4096)):
            x, scale, bias = torch.randn(tokens, features), torch.randn(features), torch.randn(features)
            expected = torch.nn.functional.layer_norm(x, (features,), scale, bias, 1e-5)
            if features == 1:  # the variance is 0 but for rounding
                expected = bias.expand(tokens, 1)
            for kernel.threads in (None, 1, 3):
                torch.testing.assert_close(kernel(x, scale, bias=bias), expected, atol=2e-5, rtol=1e-5)

    def test_scalars_are_numbers(self):
        kernel = load(self.package("saxpy", shipped("saxpy")))
        x, y = torch.randn(10007), torch.randn(10007)
        torch.testing.assert_close(kernel(2.5, x, y), 2.5 * x + y)
        torch.testing.assert_close(kernel(torch.tensor(3.0), x, y), 3 * x + y)
        with self.assertRaisesRegex(TypeError, "alpha is a scalar, not str"):
            kernel("two", x, y)

    def test_scalars_may_be_of_any_type(self):
        narrow = [name for name in ("fp8e4m3", "fp8e5m2") if name in _DTYPES]
        for dtype in ("fp64", "fp16", "bf16", "int8", "uint8", "int64", "bool", *narrow):
            kernel = load(self.package(f"scaled_{dtype}", SCALED.replace("DTYPE", dtype)))
            for alpha in {"bool": (1, 0), "uint8": (1, 200)}.get(dtype, (1, -3)):
                with self.subTest(dtype=dtype, alpha=alpha):
                    x = torch.randn(16)
                    torch.testing.assert_close(kernel(x, alpha), x * alpha)

    def test_a_package_that_takes_a_half_by_value_is_refused(self):
        package = self.package("scaled_half", SCALED.replace("DTYPE", "fp16").replace("scaled_fp16", "scaled_half"))
        header = package / "include" / "lathe_scaled_half.h"
        header.write_text(header.read_text().replace("uint16_t alpha", "_Float16 alpha"))
        with self.assertRaisesRegex(KernelError, "was written by another version: export the kernel again"):
            load(package)

    def test_dims_are_told_by_extents_that_are_sums_and_products(self):
        kernel = load(self.package("rows", ROWS))
        x, offsets = torch.randn(64, 6), torch.tensor([0, 60, 64], dtype=torch.int32)
        expected = torch.stack([x[:60].sum(0), x[60:].sum(0)])
        torch.testing.assert_close(kernel(offsets, x), expected, atol=1e-4, rtol=1e-5)
        with self.assertRaisesRegex(ValueError, r"x has the shape \(64, 5\), and \[E, 2 \* D\] is \(64, 4\) where .*D=2"):
            kernel(offsets, torch.randn(64, 5))

    def test_outputs_are_a_tuple_and_inputs_stay(self):
        kernel = load(self.package("update", UPDATE))
        x, state = torch.randn(16, 256), torch.randn(16, 256)
        before = state.clone()
        updated, total = kernel(x, state)
        torch.testing.assert_close(updated, before + x)
        torch.testing.assert_close(total, x.sum(1), atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(state, before, atol=0, rtol=0)
        with self.assertRaisesRegex(KernelError, "was not made for n=4, m=3: .*README.md"):
            kernel(torch.randn(4, 3), torch.randn(4, 3))

    def test_inputs_may_lie_anywhere_and_come_from_anywhere(self):
        kernel = load(self.package("layer_norm", shipped("layer_norm")))
        scale, bias = torch.randn(65)[1:], torch.randn(65)[1:]
        x = torch.randn(64, 9).t()
        expected = torch.nn.functional.layer_norm(x, (64,), scale, bias, 1e-5)
        torch.testing.assert_close(kernel(x, scale, bias), expected, atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(kernel(x.contiguous().numpy(), scale, bias), expected, atol=2e-5, rtol=1e-5)

    def test_what_does_not_fit_is_refused_by_name(self):
        kernel = load(self.package("layer_norm", shipped("layer_norm")))
        x, w = torch.randn(4, 8), torch.randn(8)
        with self.assertRaisesRegex(TypeError, "x is torch.float64, and the kernel takes torch.float32"):
            kernel(x.double(), w, w)
        with self.assertRaisesRegex(ValueError, r"bias has the shape \(9,\), and \[features\] is \(8,\)"):
            kernel(x, w, torch.randn(9))
        with self.assertRaisesRegex(ValueError, "x has 1 dims"):
            kernel(w, w, w)
        with self.assertRaisesRegex(TypeError, "bias is missing"):
            kernel(x, w)
        with self.assertRaisesRegex(TypeError, "not 4"):
            kernel(x, w, w, w)
        with self.assertRaisesRegex(TypeError, "scale is given twice"):
            kernel(x, w, w, scale=w)
        with self.assertRaisesRegex(TypeError, "no input gamma"):
            kernel(x, w, gamma=w)
        with self.assertRaisesRegex(TypeError, "no tensor but list"):
            kernel([1.0], w, w)

    def test_gradients_are_refused_not_dropped(self):
        kernel = load(self.package("layer_norm", shipped("layer_norm")))
        x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8)
        with self.assertRaisesRegex(KernelError, "x requires a gradient"):
            kernel(x, w, w)
        with torch.no_grad():
            self.assertFalse(kernel(x, w, w).requires_grad)

    def test_a_second_load_does_not_compile(self):
        package = self.package("layer_norm", shipped("layer_norm"))
        load(package)
        made = {one: one.stat().st_mtime_ns for one in (self.folder / "cache").rglob("*.so")}
        load(package)
        self.assertEqual(made, {one: one.stat().st_mtime_ns for one in (self.folder / "cache").rglob("*.so")})

    def test_what_is_no_package_says_so(self):
        with self.assertRaisesRegex(KernelError, "no package that lathe export wrote"):
            load(self.folder / "nothing")
        old = self.folder / "old"
        old.mkdir()
        (old / "evidence.json").write_text(json.dumps({"schema": "lathe.evidence/1", "name": "old"}))
        with self.assertRaisesRegex(KernelError, "export the kernel again"):
            load(old)

    def test_a_package_that_does_not_compile_shows_the_compilers_reason(self):
        package = self.package("saxpy", shipped("saxpy"))
        broken = self.folder / "broken"
        subprocess.run(["cp", "-r", str(package), str(broken)], check=True)
        with open(broken / "src" / "dispatch.cpp", "a") as dispatch:
            dispatch.write("\nno C++\n")
        with self.assertRaisesRegex(KernelError, "cannot compile .*broken"):
            load(broken)

    def test_it_becomes_an_operation_of_pytorch(self):
        kernel = load(self.package("update", UPDATE))
        if not hasattr(torch.library, "custom_op"):
            with self.assertRaisesRegex(KernelError, "custom_op"):
                kernel.register()
            self.skipTest(f"torch {torch.__version__} has no custom_op")
        operation = kernel.register("lathe_test")
        x, state = torch.randn(16, 256), torch.randn(16, 256)
        torch.testing.assert_close(operation(x, state)[0], state + x)
        torch.library.opcheck(torch.ops.lathe_test.update.default, (x, state))


class Extents(unittest.TestCase):
    def test_are_the_tasks_expressions(self):
        for text, value in (("n", 7), ("2 * n", 14), ("n / 2", 3), ("cdiv(n, 2) - 1", 3), ("max(n, 9) % 4", 1),
                            ("align(n, 8)", 8), ("(n + 1) << 2", 32)):
            self.assertEqual(_value(text, {"n": 7}), value, text)
        for text in ("m", "n ? 1 : 2", "__import__('os')", "n.real", "1.5"):
            with self.assertRaises(KernelError, msg=text):
                _value(text, {"n": 7})


if __name__ == "__main__":
    unittest.main()
