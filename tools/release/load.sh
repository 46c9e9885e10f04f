#!/bin/sh
# Put the images of this bundle where a cluster finds them.
set -eu

usage() {
  cat <<'END'
usage: load.sh node               load the images into containerd of this machine, as root; run it on every node
       load.sh kind [CLUSTER]     load them into every node of a kind cluster (default: kind)
       load.sh registry HOST/PATH copy them to a registry, with oras, skopeo or crane, after a login with that program
       load.sh check              only compare the files with SHA256SUMS; the others do so first

After `node` and `kind`:
  helm install koord-suite koord-suite-*.tgz --namespace koordinator-system --create-namespace --values values.yaml
After `registry`, with --set global.imageRegistry=HOST/PATH in place of the values file.

CTR (default: ctr) is the client of containerd, such as "k3s ctr"; it reads CONTAINERD_ADDRESS.
END
}

check() { sha256sum --check --quiet SHA256SUMS; }

archive() { tar --directory images --create oci-layout index.json blobs; }

copy() { # layout, tag, destination
  if command -v oras >/dev/null; then
    oras copy --from-oci-layout "$1:$2" "$3"
  elif command -v skopeo >/dev/null; then
    skopeo copy --all --preserve-digests "oci:$1:$2" "docker://$3"
  elif command -v crane >/dev/null; then
    crane push "$1" "$3"
  else
    echo "error: no oras, skopeo or crane on PATH; install one of them" >&2
    exit 1
  fi
}

cd "$(dirname "$0")"
case "${1:-}" in
  check) check ;;
  node)
    check
    archive | ${CTR:-ctr} --namespace k8s.io images import -
    ;;
  kind)
    check
    for node in $(kind get nodes --name "${2:-kind}"); do
      archive | docker exec --interactive "$node" ctr --namespace k8s.io images import -
    done
    ;;
  registry)
    registry="${2:?HOST/PATH of the registry is missing, see load.sh --help}"
    check
    while read -r layout name tag; do
      copy "images/$layout" "$tag" "$registry/$name:$tag" </dev/null
    done <images/list
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
