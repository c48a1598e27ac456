# Tests that are scripts. COMMAND python3 script, one CTest case each.
find_program(OCHRE_PYTHON NAMES python3 REQUIRED)
add_test(NAME cli/cli COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_cli.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/cli PROPERTIES LABELS cli TIMEOUT 600)
# A program that is not built with the sanitizers cannot load a library that is.
if(NOT OCHRE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME outside/outside
    COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/outside/run.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(outside/outside PROPERTIES LABELS outside TIMEOUT 300)
endif()
# Rewrites tests/fuzz/seeds: cmake --build BUILD --target make_seeds, then BUILD/tests/make_seeds tests/fuzz/seeds.
add_executable(make_seeds EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/make_seeds.c)
target_link_libraries(make_seeds PRIVATE ochre_internal)
target_include_directories(make_seeds PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME pull/pull COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/pull/test_pull.py $<TARGET_FILE:ochre_program>)
set_tests_properties(pull/pull PROPERTIES LABELS pull TIMEOUT 300)
