//! goodput-proxy: a transparent streaming reverse proxy that measures the LLM traffic passing through it.

pub mod admin;
pub mod aggregate;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod expose;
pub mod lifecycle;
pub mod measure;
pub mod observe;
pub mod proxy;
pub mod report;
pub mod route;
pub mod telemetry;
pub mod wire;
