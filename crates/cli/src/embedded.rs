//! What `build.rs` embedded.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
