# The files of `cmake --install`: libraries, the program, and the config that find_package(shardproof)
# reads. Each room lists its installed headers by shardproof_public_headers (rooms.cmake).

include(CMakePackageConfigHelpers)

get_property(room_targets GLOBAL PROPERTY SHARDPROOF_ROOM_TARGETS)
install(TARGETS ${room_targets} EXPORT shardproof ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET shardproof)
  install(TARGETS shardproof RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/shardproof")
install(EXPORT shardproof NAMESPACE shardproof:: FILE shardproofTargets.cmake
        DESTINATION "${config_dir}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/shardproofConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/shardproofConfig.cmake" INSTALL_DESTINATION "${config_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/shardproofConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/shardproofConfig.cmake"
              "${PROJECT_BINARY_DIR}/shardproofConfigVersion.cmake"
        DESTINATION "${config_dir}")
