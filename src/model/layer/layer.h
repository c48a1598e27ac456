/* The layers that architectures share. Each adds records to the plan and returns the buffer that holds its result; after
 * a failed allocation the plan says so and the results do not matter. */
#ifndef OCH_MODEL_LAYER_LAYER_H
#define OCH_MODEL_LAYER_LAYER_H

#include "model/arch.h"
#include "op/plan.h"

/* What a step reads and writes, as buffers of the plan. Group 0 is the state of full layers, group 1 of sliding ones. */
struct och_builder {
    const och_model *model;
    const och_config *config;
    och_plan *plan;
    och_plan_ref tokens, positions, seqs, out_rows; /* i32 inputs */
    och_plan_ref slots[2], tables[2];               /* a group each */
    och_plan_ref rope[2];                           /* f32 [tokens, rope.dim]: of full and of sliding layers */
    och_plan_ref kcache[OCH_MAX_LAYERS], vcache[OCH_MAX_LAYERS];
    och_plan_ref logits; /* f32 [outputs, n_vocab] */
    int block_tokens;
};

/* Embedding of the step's tokens, times config.embed_scale. */
och_plan_ref och_layer_embed(och_builder *b);
/* RMS norm over d_model by the weight of that role in the current layer (plan->layer). */
och_plan_ref och_layer_norm(och_builder *b, och_plan_ref x, och_role weight);
/* x W^T, plus the bias of that role where the file has one (OCH_ROLE_COUNT_: none). */
och_plan_ref och_layer_linear(och_builder *b, och_plan_ref x, och_role weight, och_role bias);
och_plan_ref och_layer_add(och_builder *b, och_plan_ref x, och_plan_ref y);
/* q, k, v from x; norms of q and k where the file has them; rotation; state; attention. [tokens, n_heads * head_dim] */
och_plan_ref och_layer_attention(och_builder *b, och_plan_ref x);
/* down(act(gate(x)) * up(x)) */
och_plan_ref och_layer_mlp(och_builder *b, och_plan_ref x);
/* In the last layer, after which only output rows count: picks those rows; else returns x. */
och_plan_ref och_layer_outputs(och_builder *b, och_plan_ref x);
/* Final norm and logits. */
void och_layer_head(och_builder *b, och_plan_ref x);
/* A whole step of the plain decoder: in each layer attention and feed-forward block, each after a norm and added to the
 * stream. What the file has of biases and norms of heads is used. */
void och_layer_decoder(och_builder *b);

#endif
