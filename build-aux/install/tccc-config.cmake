# tccc for CMake (3.20 or later): find_package(tccc) gives the target tccc::tccrt and the function
#
#   tccc_add_model(TARGET MODEL [SHARED] [NAME identifier] [OPTIONS flag...])
#
# TARGET is a library to link: it holds the compiled MODEL (a static archive), its generated header TARGET.h, and the
# runtime. With SHARED a file TARGET.so is built instead, for tccrt_open(); its path is the property TCCC_FILE of TARGET.
# NAME is the prefix of the C names (default: TARGET). The model is compiled again when it, or a file that it names
# (external data), has changed. Variables: TCCC_EXECUTABLE, TCCC_TCCRT_LIBRARY, TCCC_INCLUDE_DIR; TCCC_MARCH, the flag
# --march before OPTIONS: where a toolchain file's CMAKE_SYSTEM_PROCESSOR is another than this machine's, the least of it.
cmake_minimum_required(VERSION 3.20)

get_filename_component(_tccc_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(_tccc_prefixes "${_tccc_libdir}/.." "${_tccc_libdir}/../..")
set(_tccc_runtime "${_tccc_libdir}")
set(_tccc_march "")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(_tccc_march armv8-a)
    set(_tccc_runtime "${_tccc_libdir}/aarch64-linux-gnu")
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL riscv64)
    set(_tccc_march rv64gc)
    set(_tccc_runtime "${_tccc_libdir}/riscv64-linux-gnu")
  endif()
endif()
set(TCCC_MARCH "${_tccc_march}" CACHE STRING "processors that models are compiled for (tccc --march)")
# What a toolchain file says of search paths is about the other processor's files: here all are this machine's.
find_program(TCCC_EXECUTABLE tccc HINTS ${_tccc_prefixes} PATH_SUFFIXES bin NO_CMAKE_FIND_ROOT_PATH)
find_library(TCCC_TCCRT_LIBRARY NAMES libtccrt.a HINTS "${_tccc_runtime}" NO_CMAKE_FIND_ROOT_PATH)
find_path(TCCC_INCLUDE_DIR tccrt.h HINTS ${_tccc_prefixes} PATH_SUFFIXES include/tccc/runtime NO_CMAKE_FIND_ROOT_PATH)
find_package(Threads)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tccc REQUIRED_VARS TCCC_EXECUTABLE TCCC_TCCRT_LIBRARY TCCC_INCLUDE_DIR Threads_FOUND)

if(tccc_FOUND AND NOT TARGET tccc::tccrt)
  add_library(tccc::tccrt STATIC IMPORTED)
  set_target_properties(tccc::tccrt PROPERTIES
    IMPORTED_LOCATION "${TCCC_TCCRT_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TCCC_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")
endif()

function(tccc_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "SHARED" "NAME" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tccc_add_model: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NAME)
    set(arg_NAME "${target}")
  endif()
  set(march "")
  if(TCCC_MARCH)
    set(march "--march=${TCCC_MARCH}")
  endif()
  get_filename_component(input "${model}" ABSOLUTE)
  set(base "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  if(arg_SHARED)
    set(file "${base}.so")
    set(outputs "${file}")
    set(header "")
  else()
    set(file "${base}.a")
    set(outputs "${file}" "${base}.h")
    set(header -H "${base}.h")
  endif()
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND "${TCCC_EXECUTABLE}" "--name=${arg_NAME}" ${march} ${arg_OPTIONS} "${input}" -o "${file}" ${header} -MD -MF "${file}.d"
    DEPENDS "${input}" "${TCCC_EXECUTABLE}"
    DEPFILE "${file}.d"
    COMMENT "Compiling the model ${model}"
    VERBATIM)
  add_custom_target("${target}_model" ALL DEPENDS ${outputs})
  add_library("${target}" INTERFACE)
  add_dependencies("${target}" "${target}_model")
  set_target_properties("${target}" PROPERTIES TCCC_FILE "${file}")
  if(NOT arg_SHARED)
    target_include_directories("${target}" INTERFACE "${CMAKE_CURRENT_BINARY_DIR}")
    target_sources("${target}" INTERFACE "${base}.h")
    target_link_libraries("${target}" INTERFACE "${file}")
  endif()
  target_link_libraries("${target}" INTERFACE tccc::tccrt) # behind the model, which calls it
endfunction()
