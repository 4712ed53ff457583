# The proxy as one static program in an otherwise empty image.
#
#   docker build -t goodput-proxy:0.1.0 .
#
# Several architectures, SBOM and signature: deploy/README.md. Without a container engine: tests/deploy/build_image.sh.
FROM rust:1.95-bookworm AS build
WORKDIR /src
# Static glibc. With --target, so that build scripts and procedural macros stay dynamic, which they must.
ENV RUSTFLAGS="-C target-feature=+crt-static"

# The dependencies alone, in a layer that only a change of Cargo.toml or Cargo.lock rebuilds.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
    && echo 'fn main() {}' > src/main.rs \
    && touch src/lib.rs \
    && cargo build --release --locked --bin goodput-proxy --target "$(rustc --print host-tuple)" \
    && rm -r src

COPY . .
# The sources may be older than the stand-ins that were just built.
RUN touch src/main.rs src/lib.rs \
    && cargo build --release --locked --bin goodput-proxy --target "$(rustc --print host-tuple)" \
    && cp target/*/release/goodput-proxy /goodput-proxy

FROM scratch
LABEL org.opencontainers.image.title="goodput-proxy" \
      org.opencontainers.image.description="A transparent streaming reverse proxy that measures TTFT, TPOT, ITL, E2E and goodput of live LLM traffic." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /goodput-proxy /goodput-proxy
# By number, or runAsNonRoot cannot tell.
USER 65532:65532
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["/goodput-proxy"]
