// Names of the file formats that shardproof writes. A scan of a folder for scenarios skips files of
// these formats.
#pragma once

namespace shardproof {

inline constexpr const char* kReportFormat = "shardproof report";
inline constexpr const char* kRecordFormat = "shardproof record";
inline constexpr const char* kManifestFile = "manifest.json";         // of a record
inline constexpr const char* kUnfinishedFile = "manifest.json.part";  // of a record that is written

}  // namespace shardproof
