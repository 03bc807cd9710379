// The tidy rules. Each checks one file or the whole tree and returns its violations.
//
// check_tree runs all of them except check_format and writes the rule's name into each violation. A
// message states what is wrong and what to write. exemptions.h lists the parts of the tree in which
// a rule does not hold.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shardproof/tests/tidy/source.h"

namespace shardproof::tidy {

// Checks room order, rooms that a room must not include, and the rooms that may include a library.
Violations check_includes(const Source& source);

// Returns the name of the library that no public header may include, or "" for any other header.
std::string hidden_library(const std::string& header);

// Checks the lengths of headers (250), sources (700) and functions (70).
Violations check_sizes(const Source& source);

// Checks #pragma once, macros, conditionals on backends, invisible bytes and unfinished work.
Violations check_habits(const Source& source);

// Rejects a comment that begins with Of, What, Who, Where, Whether, That or As. Lists, tables and
// lines of code are not checked; a comment after code is checked if it begins with a capital.
Violations check_comment_openings(const Source& source);

// Requires a comment on the first line of each header and source of a room.
Violations check_file_openings(const Source& source);

// Limits lines of Markdown to 120 columns, except rows of tables.
Violations check_docs_lines(const Source& source);

// Rejects keep, tell, see, take, come and hear as the verb of a function that a room's header
// declares.
Violations check_function_verbs(const Source& source);

// Checks the include order of a room's sub-folders, and that each file is in a listed one.
Violations check_folder_order(const Source& source);

// Limits the number of C++ files in one folder of a room.
Violations check_folder_sizes(const std::vector<Source>& tree);

// Requires for each source x.cpp or x_aspect.cpp of a room a header x.h in the same folder.
Violations check_source_names(const std::vector<Source>& tree);

// Allows a room to include only the public headers of other rooms. Requires that a public header
// includes only public headers and shows no library that users of the package may lack.
Violations check_public_headers(const std::vector<Source>& tree);

// Requires that a CMakeLists.txt names each source and that some file includes each header.
Violations check_build_lists(const std::vector<Source>& tree);

// Rejects two types of one name in one namespace.
Violations check_type_names(const std::vector<Source>& tree);

// Rejects two types of one name in one room, in whatever namespace, anonymous ones included.
Violations check_room_type_names(const std::vector<Source>& tree);

// Rejects a function or constant in an anonymous namespace whose name another source or a header of
// its room declares, even with other parameters. The sources may compile as one (unity build).
Violations check_helper_names(const std::vector<Source>& tree);

// Runs clang-format 14 on the tree below `root`. If it is not installed, writes the reason to
// `skipped` and returns no violation.
Violations check_format(const std::filesystem::path& root, const std::vector<Source>& tree,
                        std::string& skipped);

Violations check_tree(const std::vector<Source>& tree);

}  // namespace shardproof::tidy
