//! The formats, one file each. What they have in common is the vocabulary of [`super::format`].

pub(super) mod anthropic;
pub(super) mod llamacpp;
pub(super) mod ollama;
pub(super) mod openai_chat;
pub(super) mod openai_completions;
pub(super) mod openai_responses;
pub(super) mod sglang;
pub(super) mod tgi;
pub(super) mod triton;
