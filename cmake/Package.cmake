# What `./run package` packs: the component `lathe`, and for `--bench` the component `bench` besides. All paths lie
# as in the source tree, so that commands of the documents work in the unpacked folder.
install(TARGETS lathe lathe-lab lathe-serve lathe-runner lathe-cuda-runner lathe-host-runner RUNTIME DESTINATION bin COMPONENT lathe)
install(TARGETS lathe_vendor lathe_vendor_cuda lathe_host_jail LIBRARY DESTINATION lib COMPONENT lathe)
install(DIRECTORY device tasks examples prompts DESTINATION . COMPONENT lathe)
install(DIRECTORY tests/conformance DESTINATION tests COMPONENT lathe
        FILES_MATCHING PATTERN "*.toml" PATTERN "*.cu" PATTERN "*.cpp" PATTERN "*.py" PATTERN "*_test.cpp" EXCLUDE)
install(DIRECTORY src/gemm/runtime DESTINATION src/gemm COMPONENT lathe)
install(FILES docs/archive.md DESTINATION . RENAME README.md COMPONENT lathe)
install(DIRECTORY docs DESTINATION . COMPONENT lathe FILES_MATCHING PATTERN "*.md" PATTERN "archive.md" EXCLUDE)

if(LATHE_RELOCATABLE)
  # RPATH, not RUNPATH: it also holds for what the packed libraries themselves ask for.
  set_target_properties(lathe_vendor PROPERTIES INSTALL_RPATH "$ORIGIN")
  target_link_options(lathe_vendor PRIVATE -Wl,--disable-new-dtags)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:lathe_vendor>\"
         RESOLVED_DEPENDENCIES_VAR libraries CONFLICTING_DEPENDENCIES_PREFIX conflicts
         PRE_EXCLUDE_REGEXES \"^(libc|libm|ld-linux-x86-64|libgcc_s|libgomp|libstdc[+][+])[.]so\")
    foreach(library IN LISTS libraries)
      get_filename_component(name \"\${library}\" NAME)
      file(REAL_PATH \"\${library}\" file)
      file(COPY_FILE \"\${file}\" \"\${CMAKE_INSTALL_PREFIX}/lib/\${name}\")
    endforeach()" COMPONENT lathe)

  set(packages libfmt-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libsqlite3-dev libseccomp-dev
               libsodium-dev libutf8proc-dev libhiredis-dev libpq-dev libboost1.81-dev libopenblas0-pthread libdnnl2 ocl-icd-libopencl1 gcc-12-base)
  foreach(package IN LISTS packages)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION licences RENAME ${package}.txt COMPONENT lathe)
  endforeach()
endif()

set(bench)
foreach(target IN ITEMS throughput_bench host_bench reference_bench timing_bench search_bench cuda_backend_test cuda_compile_test
                        cuda_conformance_test cuda_counters_test cuda_cupti_test cuda_device_test
                        cuda_nvrtc_test cuda_vendor_test conformance_test gemm_gpu_test)
  if(TARGET ${target})
    list(APPEND bench ${target})
  endif()
endforeach()
if(bench)
  install(TARGETS ${bench} RUNTIME DESTINATION bin COMPONENT bench)
  install(DIRECTORY bench DESTINATION . USE_SOURCE_PERMISSIONS COMPONENT bench)
endif()
add_custom_target(bench_programs DEPENDS ${bench})
