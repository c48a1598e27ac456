/* Writes the seed corpora of the file parsers: make_seeds FOLDER writes FOLDER/gguf, FOLDER/safetensors, FOLDER/json_config. */
#include "file/write.h"
#include "unit/file_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *root;

static void put(const char *target, const char *name, och_strbuf *b) {
    char path[512];
    och_err e = {0};
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    if (och_write_file(path, b->data, b->size, &e) != OCH_OK) {
        fprintf(stderr, "make_seeds: %s\n", e.message);
        exit(1);
    }
    och_strbuf_deinit(b);
    *b = (och_strbuf){0};
}

static void put_text(const char *target, const char *name, const char *text) {
    och_strbuf b = {0};
    och_strbuf_puts(&b, text);
    put(target, name, &b);
}

static void gguf_seeds(void) {
    och_strbuf b = {0};
    build_whole_gguf(&b, 3);
    put("gguf", "whole-v3", &b);
    build_whole_gguf(&b, 2);
    put("gguf", "whole-v2", &b);
    put_header(&b, 3, 0, 0);
    put("gguf", "empty", &b);
    put_header(&b, 3, 1, 1);
    put_key(&b, "general.alignment", 4), put_u32(&b, 8);
    put_tensor(&b, &(built_tensor){"t", 4, {2, 1, 1, 1}, 0, 0});
    put_data(&b, 8, 8);
    put("gguf", "alignment", &b);
    put_header(&b, 3, 2, 0);
    put_tensor(&b, &(built_tensor){"later", 2, {256, 1}, 16, 32});
    put_tensor(&b, &(built_tensor){"sooner", 1, {32}, 39, 0});
    put_data(&b, 32, 100);
    put("gguf", "unknown-type", &b);
    put_header(&b, 3, 0, 1);
    put_key(&b, "n", 9);
    for (int i = 0; i < 3; i++) put_u32(&b, 9), put_u64(&b, 1);
    put_u32(&b, 8), put_u64(&b, 1), put_str(&b, "x");
    put("gguf", "nested", &b);
    put_header(&b, 3, 0, 6);
    put_key(&b, "general.architecture", 8), put_str(&b, "llama");
    put_key(&b, "llama.block_count", 4), put_u32(&b, 2);
    put_key(&b, "llama.embedding_length", 4), put_u32(&b, 64);
    put_key(&b, "tokenizer.ggml.tokens", 9), put_u32(&b, 8), put_u64(&b, 40);
    for (int i = 0; i < 40; i++) put_str(&b, i % 2 ? "ab" : "c");
    put_key(&b, "tokenizer.ggml.scores", 9), put_u32(&b, 6), put_u64(&b, 4);
    for (int i = 0; i < 4; i++) put_f32(&b, (float)-i);
    put_key(&b, "tokenizer.ggml.token_type", 9), put_u32(&b, 5), put_u64(&b, 4);
    for (uint32_t i = 0; i < 4; i++) put_u32(&b, i);
    put("gguf", "vocabulary", &b);
}

static void safetensors_seeds(void) {
    och_strbuf b = {0};
    build_safetensors(&b, WHOLE_SAFETENSORS, 32);
    put("safetensors", "whole", &b);
    build_safetensors(&b, "{}", 0);
    put("safetensors", "empty", &b);
    build_safetensors(&b, "{\"__metadata__\":{\"a\":\"b\"}}   ", 0);
    put("safetensors", "metadata", &b);
    build_safetensors(&b,
                      "{\"w\":{\"shape\":[1,2,2,1],\"data_offsets\":[0,16],\"dtype\":\"F32\",\"more\":null},"
                      "\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[16,24]}}",
                      24);
    put("safetensors", "two", &b);
    build_safetensors(&b, "{\"f4\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[0,2]}}", 2);
    put("safetensors", "four-bits", &b);
}

static void json_seeds(void) {
    put_text("json_config", "llama",
             "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
             "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":128,\"vocab_size\":256,"
             "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"rope_scaling\":{\"rope_type\":"
             "\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
             "\"original_max_position_embeddings\":64},\"hidden_act\":\"silu\",\"tie_word_embeddings\":true,"
             "\"eos_token_id\":[1,2],\"bos_token_id\":1}");
    put_text("json_config", "gemma3",
             "{\"architectures\":[\"Gemma3ForCausalLM\"],\"model_type\":\"gemma3_text\",\"hidden_size\":64,"
             "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":32,"
             "\"intermediate_size\":96,\"vocab_size\":300,\"max_position_embeddings\":256,\"rms_norm_eps\":1e-06,"
             "\"rope_theta\":1000000.0,\"rope_local_base_freq\":10000.0,\"sliding_window\":32,\"sliding_window_pattern\":6,"
             "\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"query_pre_attn_scalar\":32,"
             "\"hidden_activation\":\"gelu_pytorch_tanh\"}");
    put_text("json_config", "nested",
             "{\"text_config\":{\"hidden_size\":64,\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6,\"rope_type\":"
             "\"yarn\",\"factor\":4,\"truncate\":false},\"sliding_attention\":{\"rope_theta\":10000,\"rope_type\":"
             "\"default\"}}},\"rope_scaling\":null}");
    put_text("json_config", "big-integer", "{\"model_max_length\":1000000000000000019884624838656,\"x\":[]}");
    put_text("json_config", "scalar", "-1.5e3");
    put_text("json_config", "strings", "[\"\\ud83d\\ude00\\n\\\"\",\"\xc3\xa9\",{\"\":{}}]");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds FOLDER\n");
        return 2;
    }
    root = argv[1];
    mkdir(root, 0777);
    gguf_seeds();
    safetensors_seeds();
    json_seeds();
    return 0;
}
