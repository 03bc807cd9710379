# Installs the libraries, the public headers of each room, the program, and the files that
# find_package(shardproof) reads. `cpack -G DEB` packs the same as a Debian package.

include(CMakePackageConfigHelpers)

get_property(room_targets GLOBAL PROPERTY SHARDPROOF_ROOM_TARGETS)
install(TARGETS ${room_targets} EXPORT shardproof ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
get_property(public_headers GLOBAL PROPERTY SHARDPROOF_PUBLIC_HEADERS)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof/${folder}")
endforeach()
if(TARGET shardproof)
  install(TARGETS shardproof RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  set(share "${PROJECT_BINARY_DIR}/share")
  install(FILES "${share}/shardproof.1" OPTIONAL DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES "${share}/completion.bash" OPTIONAL RENAME shardproof
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${share}/completion.zsh" OPTIONAL RENAME _shardproof
          DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  install(FILES "${share}/completion.fish" OPTIONAL RENAME shardproof.fish
          DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/schemas"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof")
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

# The Debian package. dpkg-shlibdeps finds the libraries that the program needs; the suggested
# packages are those that find_package(shardproof) needs to link the libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME shardproof)
set(CPACK_PACKAGE_VENDOR shardproof)
set(CPACK_PACKAGE_CONTACT "shardproof maintainers <maintainers@shardproof.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "libfmt-dev, libboost-fiber-dev, libboost-context-dev, libboost-program-options-dev")
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()
