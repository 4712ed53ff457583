#!/usr/bin/env bash
# Builds the image from the unmodified Dockerfile on a machine without a container engine, and checks the result. As root, on Debian.
#
# buildah builds in chroot isolation. The base image of the Dockerfile's first stage is not pulled: it is made here, under the same
# name, of Debian's packages and this machine's Rust toolchain. About ten minutes from nothing; the base is kept for the next run.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${GOODPUT_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/goodput-proxy-image}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
image=localhost/goodput-proxy:$version
passed=0 failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" > "$cache/check.log" 2>&1; then
        passed=$((passed + 1)); echo "ok   $name"
    else
        failed=$((failed + 1)); echo "FAIL $name"; sed 's/^/     /' "$cache/check.log" | tail -20
    fi
}
step() { echo "image: $1 (after $SECONDS s)"; }

mkdir -p "$cache"
if ! command -v buildah > /dev/null || ! command -v mmdebstrap > /dev/null; then
    step "installing buildah and mmdebstrap"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah crun mmdebstrap file > /dev/null
fi
command -v file > /dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends file > /dev/null

export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF=$cache/storage.conf
cat > "$CONTAINERS_STORAGE_CONF" <<CONF
[storage]
driver = "vfs"
graphroot = "$cache/storage"
runroot = "$cache/run"
CONF
cat > "$cache/policy.json" <<'CONF'
{ "default": [{ "type": "insecureAcceptAnything" }] }
CONF

base=docker.io/library/rust:1.95-bookworm
if ! buildah inspect --type image "$base" > /dev/null 2>&1; then
    step "a base of Debian's packages"
    [ -s "$cache/base.tar" ] || {
        mmdebstrap --quiet --variant=minbase --format=tar --include=ca-certificates,gcc,libc6-dev bookworm "$cache/base.tar.part"
        mv "$cache/base.tar.part" "$cache/base.tar"
    }
    container=$(buildah from scratch)
    buildah add -q "$container" "$cache/base.tar" / > /dev/null
    buildah config --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin --env CARGO_HOME=/usr/local/cargo --cmd /bin/sh "$container"
    buildah commit -q --signature-policy "$cache/policy.json" "$container" "$base" > /dev/null
    buildah rm "$container" > /dev/null
fi

toolchain=$(cd "$root" && rustc --print sysroot)
cargo_home=${CARGO_HOME:-$HOME/.cargo}
(cd "$root" && cargo fetch -q --locked)
step "building $image"
begun=$SECONDS
buildah bud --layers --pull-never --isolation chroot --network host --timestamp 0 --signature-policy "$cache/policy.json" \
    -v "$toolchain:/usr/local/rust:ro" -v "$cargo_home/registry:/usr/local/cargo/registry" \
    -t "$image" "$root" > "$cache/build.log" 2>&1 || { tail -40 "$cache/build.log"; echo "0 passed, 1 failed"; exit 1; }
step "built in $((SECONDS - begun)) s"

container=$(buildah from --pull-never "$image")
mounted=$(buildah mount "$container")
trap 'buildah umount "$container" > /dev/null; buildah rm "$container" > /dev/null' EXIT
binary=$mounted/goodput-proxy
size=$(stat -c %s "$binary")
configured() { buildah inspect --type image --format "{{.OCIv1.Config.$1}}" "$image"; }

echo "image: the program has $size bytes"
check "nothing is in the image but the program" \
    bash -c "find '$mounted' -xdev \( -type f -o -type l \) ! -path '$binary' | (! grep .)"
check "the program is static" bash -c "file '$binary' | grep -E 'static-pie linked|statically linked'"
check "the program is smaller than 15 MB" test "$size" -lt 15000000
check "it runs as 65532:65532" test "$(configured User)" = 65532:65532
check "it stops on SIGTERM" test "$(configured StopSignal)" = SIGTERM
check "its version label is the crate's" test "$(configured Labels | grep -o "version:$version")" = "version:$version"
check "it answers --version" bash -c "buildah run --isolation chroot '$container' /goodput-proxy --version | grep -x 'goodput-proxy $version'"
check "it runs in an empty read-only root as 65532: probes, metrics, drain, SIGTERM" \
    python3 "$root/tests/deploy/image_smoke.py" "$mounted"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
