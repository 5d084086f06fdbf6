// What the tensor cores and the swizzle need to know of an element type.
#pragma once

namespace flashcore::sm90 {

constexpr int kSwizzleBytes = 128;  // the width of the swizzle
constexpr int kUnitBytes = 16;      // the swizzle moves whole units
constexpr int kMmaKBytes = 32;      // K of one mma covers 32 bytes of any element type

template <class Element>
struct ElementTraits {
    static constexpr int kBytes = sizeof(Element);
    static constexpr int kMmaK = kMmaKBytes / kBytes;
    static constexpr int kSwizzleAtomColumns = kSwizzleBytes / kBytes;  // elements in a row of a swizzle atom
    static constexpr int kUnitElements = kUnitBytes / kBytes;
};

}  // namespace flashcore::sm90
