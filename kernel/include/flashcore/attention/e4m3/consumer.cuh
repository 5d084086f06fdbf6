// A consumer warpgroup of attention in E4M3 whose scores and products share registers.
//
// FP8 WGMMA keeps too few bits for long sums, so fp32 adds up the products of every KV block. That needs a second set of
// accumulators, and D=256 has no room for it: the output alone takes 128 registers. So PV runs in products of 64 columns, in two
// buffers of 32 registers: fp32 adds up one while the tensor cores fill the other. D=128 has one product of 128 columns in one
// buffer of 64. The buffers are also the scores of QK. A warpgroup therefore alternates between softmax and products, and others fill the tensor cores meanwhile.
#pragma once

#include "flashcore/attention/e4m3/block_descale.cuh"
#include "flashcore/attention/e4m3/softmax.cuh"
#include "flashcore/attention/e4m3/storage.cuh"
#include "flashcore/attention/e4m3/wgmma.cuh"
#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/ping_pong_barrier.cuh"
#include "flashcore/attention/warpgroup_work.h"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention::e4m3 {

template <class Tuning>
class Consumer {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kColumns = Tuning::products.columns;
    static constexpr int kProducts = kConfig.head_dim / kColumns;
    static constexpr int kBuffers = kTileN / kColumns;
    static constexpr int kRegisters = kColumns / 2;  // of a product, without the sums
    static constexpr bool kRoundedSums = Tuning::softmax.rounded_sums;
    template <bool kExactSums>
    static constexpr bool kLateSums = kExactSums && kRoundedSums;
    static constexpr int kFirstScores = kRegisters + (kRoundedSums ? 4 : 0);  // of the first buffer
    static constexpr int kSteps = kConfig.head_dim / sm90::kMmaKBytes;  // of QK
    static constexpr int kKeySteps = kTileN / sm90::kMmaKBytes;         // of PV
    static constexpr bool kBlockScales = Tuning::softmax.block_scales;
    static constexpr int kShift = pack_shift(Tuning::softmax);
    static constexpr float kUnit = 1.0f / (1 << (Tuning::softmax.offset - kShift));
    using QueryPosition = sm90::RingPosition<kConfig.q_stages>;

    __device__ __forceinline__ Consumer(const ParamsFor<Tuning>& params, Storage<Tuning>& shared, int warpgroup)
        : params_(params),
          shared_(shared),
          ping_pong_{warpgroup},
          lane_(static_cast<int>(threadIdx.x) % kWarpThreads),
          units_(ptx::shared_address(&shared) / sm90::kUnitBytes | kLeadingUnits) {}

    __device__ __forceinline__ void run() {
        ping_pong_.init();
        for (Tile tile = wait_next_tile(); tile.row != kNoTile; tile = wait_next_tile()) {
            switch (work_kind<Tuning>(params_, tile, ping_pong_.warpgroup)) {
                case WorkKind::kAttend: attend(tile); break;
                case WorkKind::kStoreZeros: store_zeros(tile); break;
                case WorkKind::kOutOfRange: skip_tile(tile); break;
            }
        }
        ping_pong_.drain();
    }

private:
    // Turns of a tile, in the order of the warpgroups: QK of the last block, then PV of a block and QK of the one before, and PV
    // of the first block. The softmax of a block follows its turn.
    //
    // The output is divided by sums of rounded probabilities, if these count. A log-sum-exp needs exact ones too.
    __device__ __forceinline__ void attend(const Tile& tile) {
        if (kRoundedSums && params_.lse == nullptr) {
            attend_with<!kRoundedSums>(tile);
        } else {
            attend_with<true>(tile);
        }
    }

    template <bool kExactSums>
    __device__ __forceinline__ void attend_with(const Tile& tile) {
        State state;
        begin_tile(tile);
        zero(output_);
        if constexpr (kRoundedSums) zero(sums_);
        make_uniform();
        k_.wait_full(shared_.k_ring);
        ping_pong_.sync();
        issue_qk<0>();
        if constexpr (kBuffers > 1) issue_qk<1>();
        ping_pong_.arrive_next();
        finish_qk();
        softmax<true, kExactSums>(state);
#pragma unroll 1
        for (int remaining = sm90::uniform(n_block_ - unmasked_n_blocks_); remaining > 0; --remaining) iterate<true, kExactSums>(state);
#pragma unroll 1
        for (int remaining = sm90::uniform(n_block_); remaining > 0; --remaining) iterate<false, kExactSums>(state);
        v_.wait_full(shared_.v_ring);
        ping_pong_.sync();
        multiply_values<false, kExactSums>(state);
        add_block_sum<kExactSums>(state);
        store<kExactSums>(state);
    }

    template <bool kMasked, bool kExactSums>
    __device__ __forceinline__ void iterate(State& state) {
        --n_block_;
        v_.wait_full(shared_.v_ring);
        if constexpr (!kLateSums<kExactSums>) k_.wait_full(shared_.k_ring);
        ping_pong_.sync();
        multiply_values<true, kExactSums>(state);
        add_block_sum<kExactSums>(state);
        finish_qk();
        softmax<kMasked, kExactSums>(state);
    }

    // Of a tile with contiguous K. The lower word has the address in units of 16 bytes and the leading offset. Shared memory ends
    // below 2^18, so an offset is one addition.
    static constexpr uint32_t kLeadingUnits = 1 << 16;
    static __device__ __forceinline__ uint64_t descriptor(uint32_t units) {
        return sm90::kSwizzle128 | sm90::descriptor_units(sm90::kSwizzleAtomBytes) << 32 | units;
    }
    static constexpr uint32_t kKeyUnits = offsetof(Storage<Tuning>, k) / sm90::kUnitBytes;
    static constexpr uint32_t kValueUnits = offsetof(Storage<Tuning>, v) / sm90::kUnitBytes;
    __device__ __forceinline__ uint32_t query_units() const {
        return units_ + (ping_pong_.warpgroup * kConfig.q_stages + query_.slot) * (query_bytes(kConfig) / sm90::kUnitBytes);
    }
    __device__ __forceinline__ uint32_t key_units() const {
        return units_ + kKeyUnits + k_.slot * (key_bytes(kConfig) / sm90::kUnitBytes);
    }
    __device__ __forceinline__ uint32_t value_units() const {
        return units_ + kValueUnits + v_.slot * (value_slot_bytes(kConfig, Tuning::softmax) / sm90::kUnitBytes);
    }

    template <int kBuffer>
    __device__ __forceinline__ auto& buffer() {
        if constexpr (kBuffer == 0) {
            return buffers_.first;
        } else {
            return buffers_.second;
        }
    }

    // The scores of the keys of one buffer.
    template <int kBuffer>
    __device__ __forceinline__ void issue_qk() {
        const uint32_t k = key_units() + sm90::descriptor_units(kBuffer * sm90::atom_column_bytes(2 * kFirstScores));
        const uint32_t q = query_units();
        ptx::warpgroup_fence_operand(buffer<kBuffer>());
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            ptx::wgmma_e4m3(buffer<kBuffer>(), descriptor(q + sm90::k_major_offset(step, kWarpgroupRows)),
                            descriptor(k + sm90::k_major_offset(step, kTileN)), step > 0);
        }
        ptx::wgmma_commit();
    }

    __device__ __forceinline__ void fence_buffers() {
        for_each_buffer(buffers_, [](auto& buffer, int) { ptx::warpgroup_fence_operand(buffer); });
    }

    __device__ __forceinline__ void finish_qk() {
        if constexpr (kBlockScales) block_factor_ = row_factor_ * factor_of(shared_.k_factor[k_.slot]);
        ptx::wgmma_wait<0>();
        fence_buffers();
        k_.release(shared_.k_ring, lane_ == 0);
        k_.advance();
        if (n_block_ == 0) release(query_);
    }

    // Adds the products of a KV block to the output. Each buffer that is free again takes scores of the next one.
    template <bool kThenQk, bool kExactSums>
    __device__ __forceinline__ void multiply_values(State& state) {
        const uint32_t v = value_units();
        issue_pv<0>(v);
        if constexpr (kLateSums<kExactSums>) {
            if constexpr (kThenQk) k_.wait_full(shared_.k_ring);  // a branch here keeps ptxas from adding before PV
            ptx::warpgroup_fence_operand(late_);
            add_late(late_, state.row_sum);
        }
        if constexpr (kBuffers > 1 && kProducts > 1) issue_pv<1>(v);
        if constexpr (kBuffers > 1 && kProducts == 1 && kThenQk) issue_qk<1>();
        float value_factor = 1.0f;
        if constexpr (kBlockScales) value_factor = factor_of(shared_.v_factor[v_.slot]);
        add_products<kThenQk, 0>(v, value_factor);
        ptx::warpgroup_fence_operand(probabilities_);
        ping_pong_.arrive_next();
        v_.release(shared_.v_ring, lane_ == 0);
        v_.advance();
    }

    // While QK runs. The empty instruction keeps the compiler from adding earlier.
    template <bool kExactSums>
    __device__ __forceinline__ void add_block_sum(State& state) {
        if constexpr (kLateSums<kExactSums>) {
#pragma unroll
            for (int r = 0; r < kRowsPerLane; ++r) {
                asm volatile("" : "+f"(block_sum_[r]));
                state.row_sum[r] += block_sum_[r];
            }
        }
    }

    template <bool kThenQk, int kProduct>
    __device__ __forceinline__ void add_products(uint32_t v, float value_factor) {
        constexpr int kBuffer = kProduct % kBuffers;
        if constexpr (kBuffers > 1 && (kProduct + 1 < kProducts || kThenQk)) {
            ptx::wgmma_wait<1>();
        } else {
            ptx::wgmma_wait<0>();
        }
        auto& products = buffer<kBuffer>();
        ptx::warpgroup_fence_operand(products);
#pragma unroll
        for (int i = 0; i < kRegisters; ++i) {
            float& sum = output_[kProduct * kRegisters + i];
            if constexpr (kBlockScales) {
                sum = fmaf(products[i], value_factor, sum);
            } else {
                sum = fmaf(sum, output_factor_[row_of(i)], products[i]);
            }
        }
        if constexpr (kRoundedSums) {
#pragma unroll
            for (int r = 0; r < kRowsPerLane; ++r) sums_[r] = fmaf(sums_[r], output_factor_[r], products[kRegisters + 2 * r]);
        }
        if constexpr (kProduct + kBuffers < kProducts) {
            issue_pv<kProduct + kBuffers>(v);
        } else if constexpr (kThenQk) {
            issue_qk<kBuffer>();
        }
        if constexpr (kProduct + 1 < kProducts) add_products<kThenQk, kProduct + 1>(v, value_factor);
    }

    // Only the lane that releases the slot reads the factor from it, and gives it to the others.
    __device__ __forceinline__ float factor_of(const float& shared_factor) const {
        return __shfl_sync(kFullWarpMask, lane_ == 0 ? shared_factor : 0.0f, 0);
    }

    template <int kProduct>
    __device__ __forceinline__ void issue_pv(uint32_t v) {
        auto& products = buffer<kProduct % kBuffers>();
        ptx::warpgroup_fence_operand(products);
        ptx::warpgroup_fence_operand(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kKeySteps; ++step) {
            ptx::wgmma_e4m3(products, probabilities_ + 4 * step,
                            descriptor(v + sm90::descriptor_units(kProduct * sm90::atom_column_bytes(kColumns)) +
                                       sm90::k_major_offset(step, kConfig.head_dim)),
                            step > 0);
        }
        ptx::wgmma_commit();
    }

    template <bool kMasked, bool kExactSums>
    __device__ __forceinline__ void softmax(State& state) {
        float shift[kRowsPerLane];  // of the exponents
        if constexpr (kBlockScales) {
            if (!__all_sync(kFullWarpMask, block_factor_ >= kSmallestFactor)) change_signs();
            if constexpr (kMasked) mask_scores();
            raise_scaled_max<kFirstScores>(buffers_, state, shift, block_factor_,
                                       [&](const Rescale& rescale) { multiply(output_, rescale); });
        } else {
            if constexpr (kMasked) adjust_scores();
            output_factor_[0] = output_factor_[1] = 1.0f;
            raise_row_max<Tuning, kFirstScores>(buffers_, state, shift, score_factor_.log2, [&](const Rescale& rescale) {
                output_factor_[0] = rescale.factor[0];
                output_factor_[1] = rescale.factor[1];
            });
        }
        const float scale = kBlockScales ? block_factor_ : score_factor_.log2;
        exponentiate<Tuning, kExactSums, kFirstScores>(buffers_, shift, scale, block_sum_, late_, probabilities_);
        if constexpr (kExactSums && !kLateSums<kExactSums>) add(state.row_sum, block_sum_);
    }

    __device__ __forceinline__ void adjust_scores() {
        if (score_factor_.sign != kUnchanged) {
            for_each_buffer(buffers_, [&](auto& buffer, int) { multiply(buffer, score_factor_.sign); });
        }
        mask_scores();
    }

    // A row maximum survives scaling only if the factor is positive. So the sign of a factor, or a zero, goes into the scores.
    __device__ __forceinline__ void change_signs() {
        const bool vanishes = fabsf(block_factor_) < kSmallestFactor;
        const float sign = vanishes ? 0.0f : copysignf(1.0f, block_factor_);
        for_each_buffer(buffers_, [&](auto& buffer, int) { multiply(buffer, sign); });
        block_factor_ = vanishes ? 1.0f : fabsf(block_factor_);
    }

    __device__ __forceinline__ void mask_scores() {
        if (n_block_ < unmasked_n_blocks_) return;
        const int first_key = n_block_ * kTileN + lane_ % kQuadLanes * 2;
        for_each_buffer(buffers_, [&](auto& buffer, int buffer_key) {
            const int visible = visible_ - first_key - buffer_key;
            mask(buffer, {visible, kConfig.causal ? visible + sm90::kCoreMatrixRows : visible});
        });
    }

    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        const WarpgroupWork work = warpgroup_work<Tuning>(params_, tile, ping_pong_.warpgroup);
        coordinate_ = {tile.row + thread_row(), tile.head, tile.batch};
        visible_ = visible_keys<kConfig.causal>(tile, thread_row());
        if constexpr (kBlockScales) {
            const HeadFactors factors(params_.q_blocks, tile.batch, quotient(tile.head, params_.heads_per_q_factor));
            const int block = min(tile.row / kFactorRows + ping_pong_.warpgroup, (params_.sq - 1) / kFactorRows);
            row_factor_ = params_.score_sign * params_.scale_log2 * factors[block];
            unmasked_n_blocks_ = sm90::uniform(work.unmasked);
        } else {
            score_factor_ = score_factor(params_, factor_of_scores(place_of(tile.head)));
            unmasked_n_blocks_ = sm90::uniform(score_factor_.sign == kUnchanged ? work.unmasked : 0);
        }
        n_block_ = sm90::uniform(work.n_blocks - work.fully_masked - 1);
        query_ = next_query_;
        next_query_.advance();
        skip_blocks(sm90::uniform(work.fully_masked));
    }

    // What the producer sends in the place of a head (ForwardParams::head_bits).
    struct FactorPlace {
        int sequence;
        int head;
        int kv_head;
    };
    __device__ __forceinline__ FactorPlace place_of(int head_and_sequence) const {
        const int head = head_and_sequence & ((1 << params_.head_bits) - 1);
        return {head_and_sequence >> params_.head_bits, head, quotient(head, params_.heads_per_kv_head)};
    }
    __device__ __forceinline__ float factor_of_scores(const FactorPlace& place) const {
        return descale(params_.q_descale, place.sequence, place.kv_head) *
               descale(params_.k_descale, place.sequence, place.kv_head);
    }

    // KV blocks that only other warpgroups of the tile need.
    __device__ __forceinline__ void skip_blocks(int blocks) {
#pragma unroll 1
        for (; blocks > 0; --blocks) {
            skip(k_, shared_.k_ring);
            ping_pong_.sync();
            ping_pong_.arrive_next();
            skip(v_, shared_.v_ring);
        }
    }

    // This warpgroup has no rows in the tile.
    __device__ __forceinline__ void skip_tile(const Tile& tile) {
        release(next_query_);
        next_query_.advance();
        skip_blocks(tile_n_blocks<Tuning>(params_, tile));
        ping_pong_.sync();
        ping_pong_.arrive_next();
    }

    // A tile whose rows see no key gives zeros and a log-sum-exp of -infinity.
    __device__ __forceinline__ void store_zeros(const Tile& tile) {
        begin_tile(tile);
        release(query_);
        zero(output_);
        if constexpr (kRoundedSums) zero(sums_);
        store<true>(State{});
    }

    template <bool kExactSums>
    __device__ __forceinline__ void store(State state) {
        MaximumFactor of_maxima{0.693147182464599609f, -1.90465430e-9f};  // ln 2
        float of_values = 1.0f;
        RowCoordinate coordinate = coordinate_;
        if constexpr (!kBlockScales) {
            const FactorPlace place = place_of(coordinate_.head);
            of_maxima = maximum_factor(params_.scale, descale(params_.q_descale, place.sequence, place.kv_head),
                                       descale(params_.k_descale, place.sequence, place.kv_head));
            of_values = descale(params_.v_descale, place.sequence, place.kv_head);
            coordinate.head = place.head;
        }
        Rescale inverse;
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            if constexpr (kExactSums) state.row_sum[r] = quad_sum(state.row_sum[r]);
            if (state.row_max[r] == minus_infinity()) state.row_sum[r] = 0.0f;  // the polynomial gives 2^-112
            const float sum = (kRoundedSums ? sums_[r] : state.row_sum[r]) * (1 << kShift);
            inverse.factor[r] = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum) * of_values;
            state.row_sum[r] *= kUnit;
        }
        SoftmaxState finished;
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            finished.row_max[r] = state.row_max[r];
            finished.row_sum[r] = state.row_sum[r];
        }
        store_fp8_lse(params_, coordinate, finished, of_maxima, lane_);
        store_permuted_rows(params_, coordinate, output_, inverse, lane_);
    }

    __device__ __forceinline__ void make_uniform() {
        k_.make_uniform();
        v_.make_uniform();
        query_.make_uniform();
    }

    __device__ __forceinline__ void release(const QueryPosition& query) {
        __syncwarp();
        query.release(shared_.q_ring[ping_pong_.warpgroup], lane_ == 0);
    }

    template <int kSlots>
    __device__ __forceinline__ void skip(sm90::RingPosition<kSlots>& position, sm90::RingBarriers<kSlots>& ring) const {
        position.wait_full(ring);
        __syncwarp();
        position.release(ring, lane_ == 0);
        position.advance();
    }

    // Waits for the next tile's query and returns that tile. Only the lane that releases the slot reads the tile from it.
    __device__ __forceinline__ Tile wait_next_tile() const {
        next_query_.wait_full(shared_.q_ring[ping_pong_.warpgroup]);
        Tile tile{};
        if (lane_ == 0) tile = shared_.tile[ping_pong_.warpgroup][next_query_.slot];
        return {sm90::uniform(tile.row), sm90::uniform(tile.head), sm90::uniform(tile.batch), sm90::uniform(tile.rows),
                sm90::uniform(tile.visible)};
    }

    // This thread's first row within the tile.
    __device__ __forceinline__ int thread_row() const {
        const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
        return ping_pong_.warpgroup * kWarpgroupRows + warp * kWarpRows + lane_ / kQuadLanes;
    }

    const ParamsFor<Tuning>& params_;
    Storage<Tuning>& shared_;
    PingPongBarrier<Tuning> ping_pong_;
    int lane_;
    uint32_t units_;  // the lower word of a descriptor of the beginning of shared memory
    RowCoordinate coordinate_;  // of this thread's first query row
    int visible_;               // keys that this row sees
    int n_block_;               // KV block of the scores, from the last to the first
    int unmasked_n_blocks_;     // KV blocks below this number are unmasked
    ScoreFactor score_factor_;
    float row_factor_;    // of the queries, with the scale. Only for factors of blocks, like the next one
    float block_factor_;  // of the scores of a KV block, in powers of two
    float output_factor_[kRowsPerLane];  // of the output when the products of this KV block are added to it
    QueryPosition query_;
    QueryPosition next_query_;
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    Scores<kFirstScores> buffers_;  // the scores, or one or two products
    uint32_t probabilities_[kWords];
    float output_[kConfig.head_dim / 2];
    float sums_[kRowsPerLane];  // of rounded probabilities, if those count
    float block_sum_[kRowsPerLane];  // of the exact probabilities of a KV block
    float late_[kLateScores];        // those that are not in it
};

}  // namespace flashcore::attention::e4m3
