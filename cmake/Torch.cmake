# LibTorch as scripts/fetch_torch.sh leaves it. Its own CMake package is not used: it asks for all of CUDA's
# libraries.
set(LATHE_TORCH_VERSION 2.11.0)
set(default ${PROJECT_SOURCE_DIR}/build/torch-${LATHE_TORCH_VERSION}/torch)
if(DEFINED ENV{LATHE_TORCH})
  set(default $ENV{LATHE_TORCH})
endif()
set(LATHE_TORCH ${default} CACHE PATH "The folder `torch` of the Python package: include/ and lib/")
if(NOT EXISTS ${LATHE_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "there is no LibTorch in ${LATHE_TORCH}: run scripts/fetch_torch.sh, "
                      "or give -DLATHE_TORCH=FOLDER")
endif()

# Only LibTorch's own headers: beside them lie those of another fmt and another oneDNN.
foreach(folder IN ITEMS ATen c10 torch)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/torch_headers)
  file(CREATE_LINK ${LATHE_TORCH}/include/${folder} ${PROJECT_BINARY_DIR}/torch_headers/${folder} SYMBOLIC)
endforeach()
add_library(torch_cpu INTERFACE IMPORTED)
target_include_directories(torch_cpu SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/torch_headers
                                                      ${PROJECT_BINARY_DIR}/torch_headers/torch/csrc/api/include)
target_link_libraries(torch_cpu INTERFACE ${LATHE_TORCH}/lib/libtorch_cpu.so ${LATHE_TORCH}/lib/libc10.so)
# Without OpenMP, LibTorch's headers run at::parallel_for on one thread.
target_compile_options(torch_cpu INTERFACE -fopenmp)
target_link_options(torch_cpu INTERFACE -fopenmp -Wl,--allow-shlib-undefined)

# The plugin for GPUs needs nvcc and CUDA's headers; without them lathe-torch has no GPU.
find_program(LATHE_NVCC nvcc HINTS /usr/local/cuda/bin)
if(LATHE_NVCC)
  get_filename_component(cuda_bin ${LATHE_NVCC} DIRECTORY)
  get_filename_component(LATHE_CUDA_TOOLKIT ${cuda_bin} DIRECTORY)
  add_library(torch_cuda INTERFACE IMPORTED)
  target_include_directories(torch_cuda SYSTEM INTERFACE ${LATHE_CUDA_TOOLKIT}/include)
  target_link_libraries(torch_cuda INTERFACE torch_cpu ${LATHE_TORCH}/lib/libtorch_cuda.so
                                             ${LATHE_TORCH}/lib/libc10_cuda.so
                                             ${LATHE_CUDA_TOOLKIT}/lib64/libcudart.so)
else()
  message(STATUS "no nvcc: lathe-torch is built without its GPU part")
endif()
