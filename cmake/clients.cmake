# Writes what other programs need to find and link the libraries: the header, a package for CMake's find_package, and a
# pkg-config file for each library. They have the same places beside lib/ in the build folder and where it is installed.
configure_file(csrc/pycudakit.h ${PROJECT_BINARY_DIR}/include/pycudakit.h COPYONLY)
configure_file(cmake/pycudakit-config.cmake
  ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/cmake/pycudakit/pycudakit-config.cmake COPYONLY)
file(WRITE ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/cmake/pycudakit/pycudakit-config-version.cmake
  "set(PACKAGE_VERSION ${PROJECT_VERSION})\n"
  "if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION)\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n"
  "if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)\n  set(PACKAGE_VERSION_EXACT TRUE)\nendif()\n")
set(engines cpu)
if(PYCUDAKIT_CUDA_FOUND)
  list(APPEND engines cuda)
endif()
file(REMOVE ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/pkgconfig/pycudakit_cuda.pc) # left by an earlier build
foreach(engine IN LISTS engines)
  configure_file(cmake/pycudakit.pc.in
    ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/pkgconfig/pycudakit_${engine}.pc @ONLY)
endforeach()
install(FILES csrc/pycudakit.h DESTINATION pycudakit/include)
install(DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/cmake ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/pkgconfig
  DESTINATION pycudakit/lib)
