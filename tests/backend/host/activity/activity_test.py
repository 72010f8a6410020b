"""Whose kernels compute, by device/host/activity.py, with a stand-in for CUPTI: activity_test.py DEVICE CUPTI MINE LIBRARY."""

import ctypes
import sys
import types
import unittest

DEVICE, CUPTI, MINE, LIBRARY = sys.argv[1:5]

torch = types.ModuleType("torch")
torch.__file__ = "/opt/python/torch/__init__.py"
torch.cuda = types.SimpleNamespace(synchronize=lambda: None)
sys.modules["torch"] = torch
sys.path.insert(0, DEVICE)
import activity  # noqa: E402

ctypes.CDLL(CUPTI, mode=ctypes.RTLD_GLOBAL)


def launch(library, function, ns):
    ctypes.CDLL(library).launch(function, ctypes.c_uint64(ns))


class ActivityTest(unittest.TestCase):
    watch = None

    @classmethod
    def setUpClass(cls):
        cls.watch = activity.Watch()

    def test_a_kernel_is_whose_library_launches_it_whatever_its_name(self):
        launch(MINE, b"cuLaunchKernel", 300)
        launch(LIBRARY, b"cuLaunchKernelEx", 100)
        launch(MINE, b"cuLaunchKernelEx_ptsz", 50)
        self.assertEqual(self.watch.take().text(), "350 2 100 1 0 0")

    def test_what_was_taken_does_not_come_again(self):
        launch(MINE, b"cuLaunchKernel", 5)
        self.assertEqual(self.watch.take().text(), "5 1 0 0 0 0")
        self.assertEqual(self.watch.take().text(), "0 0 0 0 0 0")

    def test_of_a_graph_nobody_knows(self):
        launch(MINE, b"cuGraphLaunch", 9)
        self.assertEqual(self.watch.take().text(), "0 0 0 0 9 1")

    def test_calls_that_launch_nothing_are_not_looked_at(self):
        launch(MINE, b"cuMemAlloc_v2", 0)
        self.assertEqual(self.watch.take().text(), "0 0 0 0 0 0")

    def test_a_library_that_is_loaded_later_is_found(self):
        import shutil
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            launch(shutil.copy(MINE, folder + "/late.so"), b"cuLaunchKernel", 20)
        self.assertEqual(self.watch.take().text(), "20 1 0 0 0 0")

    def test_totals_add_up(self):
        launch(MINE, b"cuLaunchKernel", 20)
        totals = self.watch.take()
        launch(LIBRARY, b"cuLaunchKernel", 30)
        totals.add(self.watch.take())
        self.assertEqual(totals.text(), "20 1 30 1 0 0")

    def test_the_launcher_is_the_first_behind_cudas_own(self):
        paths = ["/usr/lib/libffi.so.8", "/x/libcupti.so.13", "/x/libcuda.so.1", "/x/libcudart.so.13", "/x/scratch/k.so",
                 "/x/torch/lib/libtorch_python.so"]
        self.assertEqual(activity.launcher_of(paths), "/x/scratch/k.so")
        self.assertIsNone(activity.launcher_of(paths[:4]))
        self.assertIsNone(activity.launcher_of(["/x/scratch/k.so"]))

    def test_libraries_are_known_by_their_folders_and_names(self):
        folders = ("/p/torch/", "/p/nvidia/")
        for path, kind in (("/p/torch/lib/libx.so", "library"), ("/p/nvidia/cublas/lib/libcublasLt.so.13", "library"),
                           ("/usr/lib/libcudnn.so.9", "library"), ("/tmp/scratch/k.so", "own"), (None, "unknown")):
            self.assertEqual(activity.kind_of(path, folders), kind, path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
