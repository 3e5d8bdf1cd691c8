# Finds nvcc, and chooses the GPU architectures to build for. The order of search for nvcc: CMAKE_CUDA_COMPILER,
# CUDACXX, the cuda-toolkit wheels of the Python that runs the build, the system.

set(default "$ENV{PYCUDAKIT_CUDA}")
if(default STREQUAL "")
  set(default AUTO)
endif()
set(PYCUDAKIT_CUDA "${default}" CACHE STRING "Build the CUDA library: AUTO (where nvcc is), ON (or fail) or OFF")
option(PYCUDAKIT_ALL_GPUS "Build for every generation of GPUs, as releases do" "$ENV{PYCUDAKIT_ALL_GPUS}")
set(PYCUDAKIT_CUDA_FOUND OFF)

string(TOUPPER "${PYCUDAKIT_CUDA}" mode)
if(mode STREQUAL "AUTO" AND NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(STATUS "pycudakit: building the CPU library alone, as there is no CUDA for ${CMAKE_SYSTEM_NAME}")
  return()
elseif(mode STREQUAL "AUTO" AND PYCUDAKIT_SANITIZE)
  message(STATUS "pycudakit: building the CPU library alone, as sanitizers are for the CPU")
  return()
elseif(NOT mode)
  message(STATUS "pycudakit: building the CPU library alone, as PYCUDAKIT_CUDA is ${PYCUDAKIT_CUDA}")
  return()
endif()

set(origin "named by CMAKE_CUDA_COMPILER")
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT "$ENV{CUDACXX}" STREQUAL "")
    set(origin "named by CUDACXX")
  else()
    # nvidia.cu13 is a namespace package, which may be incomplete: PyTorch brings it without nvcc.
    set(find_wheels [[
import pathlib
import nvidia.cu13
parts = "bin/nvcc", "nvvm/bin/cicc", "include/crt/host_config.h", "include/cuda_runtime.h", "lib/libcudart_static.a"
roots = [p for p in map(pathlib.Path, nvidia.cu13.__path__) if all((p / part).exists() for part in parts)]
print(roots[0].as_posix())
]])
    find_package(Python3 COMPONENTS Interpreter QUIET)
    set(wheels "")
    if(Python3_FOUND)
      execute_process(COMMAND ${Python3_EXECUTABLE} -c "${find_wheels}"
        OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    if(wheels)
      set(origin "from the cuda-toolkit wheels")
      # pip unpacks the wheels in another folder each time. Through a link the commands stay the same, so that objects
      # need not be built again.
      file(CREATE_LINK ${wheels} ${PROJECT_BINARY_DIR}/cuda-toolkit SYMBOLIC)
      set(CMAKE_CUDA_COMPILER ${PROJECT_BINARY_DIR}/cuda-toolkit/bin/nvcc)
    else()
      set(origin "found on this system")
      find_program(PYCUDAKIT_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
      if(PYCUDAKIT_NVCC)
        set(CMAKE_CUDA_COMPILER ${PYCUDAKIT_NVCC})
      elseif(mode STREQUAL "AUTO")
        message(STATUS "pycudakit: building the CPU library alone, as no nvcc was found")
        return()
      else()
        message(FATAL_ERROR "PYCUDAKIT_CUDA=${PYCUDAKIT_CUDA}, and no nvcc found: install the cuda-toolkit wheels "
                            "that pyproject.toml lists, or set CUDACXX")
      endif()
    endif()
  endif()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  separate_arguments(command NATIVE_COMMAND "$ENV{CUDACXX}")
  list(POP_FRONT command nvcc)
else()
  set(nvcc ${CMAKE_CUDA_COMPILER})
endif()

# nvcc does not search the folder where the wheels have libcudart_static.a. The variable is for CMake's trial
# compilation, the library directory for the build.
find_program(nvcc_path ${nvcc} NO_CACHE)
get_filename_component(PYCUDAKIT_CUDA_LIBRARY_DIR "${nvcc_path}/../../lib" ABSOLUTE)
if(EXISTS ${PYCUDAKIT_CUDA_LIBRARY_DIR}/libcudart_static.a)
  set(ENV{LIBRARY_PATH} "${PYCUDAKIT_CUDA_LIBRARY_DIR}:$ENV{LIBRARY_PATH}")
else()
  set(PYCUDAKIT_CUDA_LIBRARY_DIR "")
endif()

# Build for all generations of GPUs, or for those of this machine's GPUs, as far as this nvcc knows them, and add the
# PTX of the last one for newer GPUs. On a machine without a GPU build the PTX of the first generation only, which the
# driver compiles for any GPU.
if(NOT CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
  if(PYCUDAKIT_ALL_GPUS)
    set(wanted 75 80 90 100 120)
  else()
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE wanted ERROR_QUIET RESULT_VARIABLE result)
    string(REPLACE "." "" wanted "${wanted}")
    string(REGEX MATCHALL "[0-9]+" wanted "${wanted}")
    list(REMOVE_DUPLICATES wanted)
    list(SORT wanted COMPARE NATURAL)
  endif()
  execute_process(COMMAND ${nvcc} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  set(CMAKE_CUDA_ARCHITECTURES "")
  foreach(architecture IN LISTS wanted)
    if(architecture IN_LIST known)
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
    endif()
  endforeach()
  string(REGEX REPLACE "-real$" "" CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}") # the last one's PTX, too
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-virtual)
    message(STATUS "pycudakit: no GPU is visible, so only PTX is built, which the driver compiles at first use; "
                   "PYCUDAKIT_ALL_GPUS=ON builds for all generations")
  endif()
endif()

enable_language(CUDA)
set(PYCUDAKIT_CUDA_FOUND ON)
message(STATUS "pycudakit: building both libraries with nvcc ${CMAKE_CUDA_COMPILER_VERSION} ${origin} "
               "(${CMAKE_CUDA_COMPILER}) for ${CMAKE_CUDA_ARCHITECTURES}")
