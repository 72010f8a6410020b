#include "model/gguf.h"

#include "tests/model/fixtures.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Gguf> parse(const std::string& bytes) { return Gguf::parse(as_bytes(bytes), "m.gguf"); }

/// The text of the error, which must name the file and say what to do.
std::string refusal(const std::string& bytes) {
  const auto gguf = parse(bytes);
  if (gguf.ok()) return "it was read";
  EXPECT_EQ(gguf.error().where.file, "m.gguf");
  EXPECT_FALSE(gguf.error().hint.empty()) << gguf.error().message;
  return gguf.error().message;
}

GgufWriter sample() {
  GgufWriter writer;
  writer.string("general.architecture", "llama").number("n", 7).real("x", 0.5f).truth("yes", true);
  writer.strings("names", {"a", "", "long"}).integers("ids", {-1, 5});
  writer.tensor("w", {2, 3}, 0, bytes_of({1, 2, 3, 4, 5, 6})).tensor("q", {1, 32}, 8, std::string(34, '\0'));
  return writer;
}

TEST(Gguf, GivesMetadataOfEveryKind) {
  const std::string bytes = sample().bytes();
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf.ok()) << gguf.error().to_string();
  EXPECT_EQ(gguf->text("general.architecture").value(), "llama");
  EXPECT_EQ(gguf->integer("n").value(), 7);
  EXPECT_EQ(gguf->number("x").value(), 0.5);
  EXPECT_EQ(gguf->number("n").value(), 7);
  EXPECT_TRUE(gguf->boolean("yes").value());
  EXPECT_THAT(gguf->texts("names").value(), ElementsAre("a", "", "long"));
  EXPECT_THAT(gguf->integers("ids").value(), ElementsAre(-1, 5));
}

TEST(Gguf, GivesTensorsWithTheSlowestAxisFirst) {
  const std::string bytes = sample().bytes();
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf.ok());
  ASSERT_EQ(gguf->tensors().size(), 2u);
  EXPECT_EQ(gguf->tensors()[0].name, "w");
  EXPECT_THAT(gguf->tensors()[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(gguf->tensors()[0].bytes.size(), 24u);
  EXPECT_EQ(gguf->tensors()[1].format, WeightFormat::kQ8_0);
}

TEST(Gguf, SaysWhatIsWrongWithAValue) {
  const std::string bytes =
      sample().raw("huge", 10, little_endian(~std::uint64_t{0})).raw("odd", 7, "\x02").bytes();
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf.ok());
  EXPECT_THAT(gguf->text("missing").error().to_string(),
              HasSubstr("m.gguf: the file says nothing of 'missing'"));
  EXPECT_THAT(gguf->text("n").error().message, HasSubstr("'n' is not text"));
  EXPECT_THAT(gguf->integer("names").error().message, HasSubstr("'names' is not a single value"));
  EXPECT_THAT(gguf->integers("names").error().message, HasSubstr("not an integer"));
  EXPECT_THAT(gguf->texts("ids").error().message, HasSubstr("not an array of texts"));
  EXPECT_THAT(gguf->integer("huge").error().message, HasSubstr("not an integer of 63 bits"));
  EXPECT_THAT(gguf->boolean("odd").error().message, HasSubstr("not true or false"));
}

TEST(Gguf, RefusesEveryPrefixOfAFile) {
  const std::string bytes = sample().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string prefix = bytes.substr(0, size);
    EXPECT_FALSE(parse(prefix).ok()) << size;
  }
}

TEST(Gguf, SurvivesEveryChangedByte) {
  const std::string bytes = sample().bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const char value : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string changed = bytes;
      changed[i] = value;
      const auto gguf = parse(changed);
      EXPECT_TRUE(gguf.ok() || !gguf.error().message.empty());
    }
}

TEST(Gguf, RefusesFilesOfOtherKinds) {
  EXPECT_THAT(refusal("PK\x03\x04"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal(""), HasSubstr("not a GGUF file"));
  GgufWriter writer = sample();
  writer.version = 1;
  EXPECT_THAT(refusal(writer.bytes()), HasSubstr("version 1 is unknown"));
  writer.version = 3u << 24;
  EXPECT_THAT(refusal(writer.bytes()), HasSubstr("big-endian"));
}

TEST(Gguf, RefusesCountsThatLie) {
  GgufWriter more_keys = sample();
  more_keys.keys = ~std::uint64_t{0};
  EXPECT_NE(refusal(more_keys.bytes()), "it was read");
  GgufWriter more_tensors = sample();
  more_tensors.tensors = std::uint64_t{1} << 60;
  EXPECT_NE(refusal(more_tensors.bytes()), "it was read");
  const auto with_array = [](std::uint32_t type, std::uint64_t count) {
    return sample().raw("a", 9, little_endian(type) + little_endian(count)).bytes();
  };
  EXPECT_THAT(refusal(with_array(8, std::uint64_t{1} << 61)), HasSubstr("more than the file"));
  EXPECT_THAT(refusal(with_array(10, std::uint64_t{1} << 61)), HasSubstr("more than the file"));
  EXPECT_THAT(refusal(sample().raw("t", 8, little_endian(~std::uint64_t{0})).bytes()),
              HasSubstr("bytes, but"));
}

TEST(Gguf, RefusesUnknownTypesAndArraysOfArrays) {
  EXPECT_THAT(refusal(sample().raw("a", 99, "").bytes()), HasSubstr("'a' has the unknown type 99"));
  EXPECT_THAT(
      refusal(
          sample().raw("a", 9, little_endian<std::uint32_t>(9) + little_endian<std::uint64_t>(1)).bytes()),
      HasSubstr("in an array"));
}

TEST(Gguf, RefusesNamesThatOccurTwice) {
  EXPECT_THAT(refusal(sample().number("n", 8).bytes()), HasSubstr("'n' occurs twice"));
  EXPECT_THAT(refusal(sample().number("", 8).bytes()), HasSubstr("empty"));
}

TEST(Gguf, RefusesImpossibleShapes) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(sample().tensor_info("t", {huge, huge}, 0, 0).bytes()), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {-1}, 0, 0).bytes()), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {4, 0}, 0, 0).bytes()), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {}, 0, 0).bytes()), HasSubstr("0 dims"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {1, 1, 1, 1, 1}, 0, 0).bytes()), HasSubstr("5 dims"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {2, 33}, 8, 64).bytes()),
              HasSubstr("no whole blocks of Q8_0"));
}

TEST(Gguf, RefusesTensorsThatLieWhereTheyCannot) {
  EXPECT_THAT(refusal(sample().tensor_info("t", {1}, 0, 8).bytes()), HasSubstr("not at a multiple of 32"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {1}, 0, 0).bytes()), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {1}, 0, 96).bytes()), HasSubstr("beyond the file's end"));
  EXPECT_THAT(refusal(sample().tensor_info("t", {1}, 0, ~std::uint64_t{31}).bytes()),
              HasSubstr("beyond the file's end"));
}

TEST(Gguf, NamesTheFormatsThatItReadsWhereOneIsUnknown) {
  const auto gguf = parse(sample().tensor_info("t", {256}, 10, 96).bytes());
  ASSERT_FALSE(gguf.ok());
  EXPECT_THAT(gguf.error().message, HasSubstr("ggml's format 10"));
  EXPECT_THAT(gguf.error().hint, HasSubstr("Q4_K"));
}

TEST(Gguf, RefusesAlignmentsThatAreNone) {
  for (const std::uint32_t alignment : {0u, 3u, 1u << 31})
    EXPECT_THAT(refusal(sample().number("general.alignment", alignment).bytes()),
                HasSubstr("general.alignment"))
        << alignment;
}

TEST(Gguf, ShowsHostileNamesWithoutTheirControlCharacters) {
  EXPECT_THAT(refusal(sample().tensor_info("\x1b[2J", {}, 0, 0).bytes()), HasSubstr("U+001B"));
}

}  // namespace
}  // namespace lathe
