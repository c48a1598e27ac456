# Tests that are scripts. COMMAND python3 script, one CTest case each.
find_program(OCHRE_PYTHON NAMES python3 REQUIRED)
add_test(NAME cli/cli COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_cli.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/cli PROPERTIES LABELS cli TIMEOUT 600)
add_test(NAME cli/people COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_people.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/people PROPERTIES LABELS cli TIMEOUT 900)
add_test(NAME cli/bench COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_bench.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/bench PROPERTIES LABELS cli TIMEOUT 300)
add_test(NAME tree/check COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/tree/check.py ${PROJECT_SOURCE_DIR})
add_test(NAME tree/self_test COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/tree/check.py ${PROJECT_SOURCE_DIR} --self-test)
set_tests_properties(tree/check tree/self_test PROPERTIES LABELS tree)
# Real models against their goldens: the reference provider to rounding; the fast one in steps of 64 and token by token, and with
# a state of eight-bit floats; the kernels on a simulated board (one of each wave size), one prompt.
foreach(model "smollm2-135m-q4_1 SmolLM2-135M-Instruct.Q4_1 gfx1151" "gemma3-270m-q4_k_m gemma-3-270m-q4_k_m gfx942")
  string(REPLACE " " ";" names "${model}")
  list(GET names 0 golden)
  list(GET names 1 file)
  list(GET names 2 board)
  foreach(kind reference fast decode fp8 board)
    set(name real/${golden}/${kind})
    set(options)
    if(kind STREQUAL "reference")
      set(options --provider reference)
    elseif(kind STREQUAL "decode")
      set(options --step 1)
    elseif(kind STREQUAL "fp8")
      set(options --device cpu --kv-type fp8)
    elseif(kind STREQUAL "board")
      set(options --device sim:${board} --only tiny --step 8)
    endif()
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/verify_real.sh $<TARGET_FILE:ochre_program>
      ${PROJECT_SOURCE_DIR}/models/${file}.gguf ${CMAKE_CURRENT_SOURCE_DIR}/golden/${golden}.safetensors ${options})
    # Each uses every CPU.
    set_tests_properties(${name} PROPERTIES LABELS "real;slow" TIMEOUT 1800 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
  endforeach()
endforeach()
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
# One thread and much arithmetic: nothing for ThreadSanitizer to see.
if(OCHRE_SANITIZE MATCHES "thread")
  foreach(name test_sampler test_tok_broken test_kv test_gguf_broken)
    if(TEST unit/${name})
      set_property(TEST unit/${name} APPEND PROPERTY LABELS slow)
    endif()
  endforeach()
endif()
# Every kernel for every target, two values and more of each parameter.
if(NOT OCHRE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME kernels/check COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/check_kernels.py $<TARGET_FILE:ochre_program>)
  set_tests_properties(kernels/check PROPERTIES LABELS "kernels;slow" TIMEOUT 2700 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
  add_test(NAME kernels/planted
    COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/check_kernels.py $<TARGET_FILE:ochre_program> --planted)
  set_tests_properties(kernels/planted PROPERTIES LABELS kernels TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
# What sanitizers see in the simulator's arithmetic they see on one board; under ThreadSanitizer it takes an hour and is one thread's.
if(OCHRE_SANITIZE)
  foreach(name test_ops_devices test_kernels)
    set_tests_properties(conform/${name} PROPERTIES ENVIRONMENT "OCHRE_TEST_DEVICES=sim:gfx1151" TIMEOUT 1800)
  endforeach()
  set_tests_properties(model/test_graph PROPERTIES ENVIRONMENT "OCHRE_TEST_DEVICES=sim:gfx1151" TIMEOUT 1800)
endif()
if(OCHRE_SANITIZE MATCHES "thread")
  foreach(name conform/test_ops_devices conform/test_kernels conform/test_kl_math_sim hip/test_kl hip/test_kl_lanes hip/test_kl_memory
          unit/test_kl_emit unit/test_kl_math unit/test_jit_cache unit/test_jit_pack isa/test_checks cli/people model/test_graph
          cli/graph cli/bench)
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS slow)
    endif()
  endforeach()
endif()
# The decoder against LLVM's, and random programs on the host and on the simulator: they need clang-22, and skip themselves
# without it. The programs are other ones for every commit; the seed is printed.
if(NOT OCHRE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME isa/decode_llvm
    COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/isa/decode/check_llvm.py $<TARGET_FILE:ochre_sim_decode>)
  add_test(NAME isa/diff
    COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/isa/diff/run.py $<TARGET_FILE:ochre_sim_diff> --programs 50)
  set_tests_properties(isa/decode_llvm isa/diff PROPERTIES LABELS isa TIMEOUT 900 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
  add_test(NAME isa/occupancy_llvm
    COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/isa/occupancy/check.py $<TARGET_FILE:ochre_sim_occupancy>)
  set_tests_properties(isa/occupancy_llvm PROPERTIES LABELS isa TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()
add_test(NAME hip/documented COMMAND ${OCHRE_PYTHON} ${PROJECT_SOURCE_DIR}/sim/tools/hip_docs.py ${PROJECT_SOURCE_DIR} --check)
set_tests_properties(hip/documented PROPERTIES LABELS hip)
add_test(NAME cli/cache COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_cache.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/cache PROPERTIES LABELS cli TIMEOUT 300)
add_test(NAME cli/graph COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_graph.py $<TARGET_FILE:ochre_program>)
set_tests_properties(cli/graph PROPERTIES LABELS cli TIMEOUT 600)
add_test(NAME cli/tune COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_tune.py $<TARGET_FILE:ochre_program>
         $<TARGET_FILE:fake_hipblaslt_plain>)
set_tests_properties(cli/tune PROPERTIES LABELS cli TIMEOUT 120)
if(TARGET ochre_sim_hip)
  add_test(NAME cli/tls COMMAND ${OCHRE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/check_tls.py $<TARGET_FILE:ochre_sim_hip>)
  set_tests_properties(cli/tls PROPERTIES LABELS cli)
endif()
# The longest first, in all builds, so that no one of them is left to the end: seconds where nothing has run yet (afterwards CTest
# knows better). What has the machine to itself comes last whatever it costs.
foreach(cost conform/blas_gfx942=480 unit/test_gpu_tune=250 conform/test_ops_devices=220 model/test_sampling=180 model/test_graph=140
        conform/own=105 conform/blas_gfx1151=100 conform/test_ops=90 conform/rings=80 conform/test_kernels=65 cli/people=52 cli/cli=51
        unit/test_kl_group=45 unit/test_kl_turned=40 unit/test_gpu_cuts=40 cli/bench=33 hip/test_kl_memory=32 conform/test_rings=25
        pull/pull=23 unit/test_gpu_tune_file=20 unit/test_kl_staged=18 hip/test_kl=18 model/test_passes=17)
  string(REPLACE "=" ";" cost ${cost})
  list(GET cost 0 name)
  list(GET cost 1 seconds)
  if(TEST ${name})
    set_property(TEST ${name} PROPERTY COST ${seconds})
  endif()
endforeach()
